"""Command line: `python -m devcluster COMMAND`. Data on stdout, progress and errors on stderr."""

import argparse
import sys
import time
from typing import NoReturn

from devcluster import binaries, instance, nodes
from devcluster.client import ApiError
from devcluster.control_plane import ControlPlane, StartError, remove_leftovers
from dra_operator import profiles

_DEFAULT_NAME = "default"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit code (1: it failed and stderr says why, 130: Ctrl-C)."""
    asked = _parser().parse_args(arguments)
    try:
        code: int = asked.run(asked)
    except (binaries.BuildError, instance.InstanceError, StartError, profiles.ProfileError, ApiError, OSError) as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("devcluster: stopped by Ctrl-C; nothing is left running", file=sys.stderr)
        return 130
    return code


def _up(asked: argparse.Namespace) -> int:
    mix = _mix(asked)
    if mix:
        profiles.parse_mix(mix, asked.nodes)  # before minutes of building
    started = time.monotonic()
    plane = ControlPlane.start(asked.name, scheduler=asked.scheduler, detach=True, report=binaries.to_stderr)
    binaries.to_stderr(f"instance {plane.name} is ready at {plane.server} after {time.monotonic() - started:.1f} s")
    if mix:
        try:
            _add_nodes(plane, mix, asked)
        except BaseException:
            plane.stop()
            raise
    binaries.to_stderr(f"export KUBECONFIG={plane.kubeconfig}")
    return 0


def _down(asked: argparse.Namespace) -> int:
    names = [folder.name for folder in instance.all_folders()] if asked.all else [asked.name]
    for name in names:
        folder = instance.folder(name)
        if instance.is_alive(folder):
            ControlPlane.for_stopping(name).stop()
            binaries.to_stderr(f"instance {name} is down")
        elif remove_leftovers(name):
            binaries.to_stderr(f"instance {name} was not running; its leftovers are removed")
        else:
            binaries.to_stderr(f"there is no instance {name}")
    return 0


def _status(_asked: argparse.Namespace) -> int:
    folders = instance.all_folders()
    if not folders:
        binaries.to_stderr("no instances: `python -m devcluster up` starts one")
    for folder in folders:
        print(_status_line(folder))
    return 0


def _status_line(folder: instance.Folder) -> str:
    described = folder.read()
    if not instance.is_alive(folder):
        return f"{folder.name}: dead, left over from a killed run (`down --name {folder.name}` removes it)"
    if described is None or not described.ready:
        return f"{folder.name}: starting"
    plane = ControlPlane.attach(folder.name)
    running = plane.pids()
    wanted = ["etcd", "kube-apiserver", "kube-controller-manager"]
    wanted += ["kube-scheduler"] if described.scheduler else []
    wanted += ["kubelet"] if described.kubelet else []
    missing = [component for component in wanted if component not in running]
    state = f"degraded, not running: {', '.join(missing)}" if missing else "ready"
    try:
        count = len(plane.client.get("/api/v1/nodes?resourceVersion=0")["items"])
    except (ApiError, OSError):
        count = 0
    return f"{folder.name}: {state}, {described.version}, {plane.server}, {count} nodes, {plane.kubeconfig}"


def _kubeconfig(asked: argparse.Namespace) -> int:
    print(ControlPlane.attach(asked.name).kubeconfig)
    return 0


def _kubectl(asked: argparse.Namespace) -> NoReturn:
    ControlPlane.attach(asked.name).exec_kubectl(asked.arguments)


def _build(_asked: argparse.Namespace) -> int:
    print(binaries.ensure(binaries.to_stderr))
    return 0


def _nodes(asked: argparse.Namespace) -> int:
    _add_nodes(ControlPlane.attach(asked.name), _mix(asked) or "p4d", asked)
    return 0


def _profiles(_asked: argparse.Namespace) -> int:
    for name in profiles.names():
        print(f"{name:8} {profiles.describe(name)}")
    return 0


def _add_nodes(plane: ControlPlane, mix: str, asked: argparse.Namespace) -> None:
    started = time.monotonic()
    added = plane.add_nodes(mix, count=asked.nodes, prefix=asked.prefix)
    binaries.to_stderr(f"{len(added)} nodes added in {time.monotonic() - started:.1f} s: {_shortened(added)}")
    if asked.classes:
        binaries.to_stderr(f"device classes: {', '.join(nodes.add_classes(plane.client, mix))}")


def _mix(asked: argparse.Namespace) -> str | None:
    """The profiles asked for; `--nodes 3` alone means p4d."""
    given: str | None = asked.profile
    return given or ("p4d" if asked.nodes else None)


def _shortened(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:3])}, … {names[-1]}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m devcluster", description="A local, real Kubernetes control plane.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default=_DEFAULT_NAME, help="of the instance (default: %(default)s)")
    populated = argparse.ArgumentParser(add_help=False)
    populated.add_argument("--nodes", type=int, metavar="N", help="simulated nodes to add")
    populated.add_argument(
        "--profile", metavar="P[:N],...", help=f"what they are: {', '.join(profiles.names())} (default: p4d)"
    )
    populated.add_argument("--prefix", help="in front of the nodes' names")
    populated.add_argument("--classes", action="store_true", help="also create the drivers' DeviceClasses")

    up = commands.add_parser("up", parents=[named, populated], help="start an instance and wait until it is ready")
    up.add_argument("--no-scheduler", dest="scheduler", action="store_false", help="without kube-scheduler")
    up.set_defaults(run=_up)
    down = commands.add_parser("down", parents=[named], help="end an instance and remove its state")
    down.add_argument("--all", action="store_true", help="every instance")
    down.set_defaults(run=_down)
    commands.add_parser("status", help="list the instances").set_defaults(run=_status)
    commands.add_parser(
        "kubeconfig", parents=[named], help="print the path of the administrator's kubeconfig"
    ).set_defaults(run=_kubeconfig)
    kubectl = commands.add_parser("kubectl", parents=[named], help="run kubectl: kubectl [--name NAME] -- ARGS")
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER)
    kubectl.set_defaults(run=_kubectl)
    commands.add_parser("nodes", parents=[named, populated], help="add simulated nodes to an instance").set_defaults(
        run=_nodes
    )
    commands.add_parser("profiles", help="list the node profiles").set_defaults(run=_profiles)
    commands.add_parser("build", help="build the programs (or find them) and print the folder").set_defaults(run=_build)
    return parser


if __name__ == "__main__":
    sys.exit(main())
