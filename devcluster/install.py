"""Put the operator of this repository on an instance, and run it beside it under its own service account.

Nodes are simulated and pull no images, so the program runs as a process in place of the Deployment's pods. It has
the account's rights and no others, and the admission policies know it by the account's name.

`python -m devcluster.install --name NAME` installs and prints how to start the operator.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster.client import ApiError
from devcluster.control_plane import ControlPlane
from devcluster.waiting import eventually

MANIFEST: Final = Path(__file__).resolve().parents[1] / "manifests" / "install.yaml"
NAMESPACE: Final = "dra-operator"
ACCOUNT: Final = "dra-operator"
_STOP_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """A running `dra-operator run`; `log` is what it has written so far and from now on."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def kill(self) -> None:
        """As a crash would: nothing in flight is finished, the Lease is kept until it expires."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def install(plane: ControlPlane, manifest: Path = MANIFEST) -> None:
    """Apply the manifest with the Deployment scaled to 0, and wait until all of its admission policies act.

    Raises `KubectlError`, `NeverHappened`.
    """
    plane.kubectl("apply", "--server-side", "-f", str(manifest))
    plane.kubectl("-n", NAMESPACE, "scale", "deployment/dra-operator", "--replicas=0")
    # The API server compiles new policies a moment after they are stored.
    eventually(lambda: _policies_act(plane), what="the admission policies act")


def account_kubeconfig(plane: ControlPlane, path: Path, *, hours: int = 24) -> Path:
    """Write a kubeconfig of the operator's service account to `path`, readable by this user alone."""
    token = plane.kubectl("-n", NAMESPACE, "create", "token", ACCOUNT, f"--duration={hours}h").strip()
    config: dict[str, Any] = json.loads(plane.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def operator(plane: ControlPlane, arguments: Sequence[str] = ()) -> Iterator[OperatorProcess]:
    """Run the operator until the block ends; more arguments go to `dra-operator run`."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig, log = account_kubeconfig(plane, Path(folder) / "kubeconfig"), Path(folder) / "log"
        command = [
            sys.executable,
            "-m",
            "dra_operator.cli",
            "run",
            "--kubeconfig",
            str(kubeconfig),
            "--probe-port",
            "0",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen([*command, *arguments], stdout=output, stderr=output)
        running = OperatorProcess(process, log)
        try:
            yield running
        finally:
            if process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.stop()


def _policies_act(plane: ControlPlane) -> bool:
    """Dry runs that each policy must change or refuse."""
    claim = {"metadata": {"name": "probe"}, "spec": {"devices": {"requests": []}}}
    annotated = {"name": "probe", "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    pod = {
        "metadata": {"name": "probe"},
        "spec": {
            "containers": [{"name": "probe", "image": "probe"}],
            "resourceClaims": [{"name": "probe", "resourceClaimName": "probe"}],
        },
    }
    report = {"apiVersion": "dra-operator.dev/v1alpha1", "kind": "ClaimReport", "metadata": {"name": "probe"}}
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims?dryRun=All"
    reports = "/apis/dra-operator.dev/v1alpha1/namespaces/default/claimreports?dryRun=All"
    pods = "/api/v1/namespaces/default/pods?dryRun=All"
    made = plane.client.post(claims, claim)
    return (
        "labels" in made["metadata"]
        and bool(plane.client.post(pods, pod)["spec"].get("schedulingGates"))
        and _refused(plane, claims, claim | {"metadata": annotated})
        and _refused(plane, reports, report | {"status": {"phase": "Queued"}})
    )


def _refused(plane: ControlPlane, path: str, body: dict[str, Any]) -> bool:
    try:
        plane.client.post(path, body)
    except ApiError as error:
        return error.status == 403
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.install", description=__doc__)
    parser.add_argument("--name", default="default", help="of the instance (default: %(default)s)")
    plane = ControlPlane.attach(parser.parse_args(arguments).name)
    install(plane)
    kubeconfig = account_kubeconfig(plane, plane.kubeconfig.with_name("operator.kubeconfig"))
    print(f"dra-operator run --kubeconfig {kubeconfig}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
