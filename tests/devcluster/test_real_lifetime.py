"""Instances of the real control plane: several at a time, and gone whatever happens to whoever started them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import ControlPlane, InstanceError, StartError, eventually, instance
from devcluster import control_plane as control_plane_module
from devcluster.__main__ import main
from devcluster.client import Client, read_kubeconfig

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _own_state(control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The instances made here live apart; the one of the session has started by now (and with it the build)."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield
    main(["down", "--all"])


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if instance.start_time(pid) is not None]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_two_side_by_side_know_nothing_of_each_other(control_plane: ControlPlane) -> None:
    with ControlPlane.start("second") as second:
        assert second.server != control_plane.server
        second.add_nodes("l4:2")
        names = [node["metadata"]["name"] for node in second.client.get("/api/v1/nodes")["items"]]
        assert names == ["l4-0", "l4-1"]
        assert control_plane.client.get("/api/v1/nodes")["items"] == []
        with pytest.raises(InstanceError, match="instance second runs already"):
            ControlPlane.start("second")
        assert ControlPlane.attach("second").kubectl("get", "nodes", "-o", "name") == "node/l4-0\nnode/l4-1\n"
        pids = list(second.pids().values())
        assert len(alive(pids)) == 5
    assert not alive(pids)
    assert instance.all_folders() == []
    assert control_plane.client.get("/readyz") == "ok"


def test_killing_its_owner_ends_it() -> None:
    code = "from devcluster import ControlPlane; p = ControlPlane.start('owned'); print(*p.pids().values(), flush=True); input()"
    owner = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(alive(pids)) == 5
        owner.kill()
    eventually(lambda: not instance.folder("owned").path.exists(), 60)
    assert not alive(pids)


def test_ctrl_c_in_the_middle_of_a_start_leaves_nothing() -> None:
    starting = subprocess.Popen(
        [sys.executable, "-m", "devcluster", "up", "--name", "stopped"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests are a shell's background job they ignore it, and whatever they start inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    folder = instance.folder("stopped")
    eventually(folder.log("kube-apiserver").exists, 60)
    pids = list(instance.recorded_processes(folder).values())
    starting.send_signal(signal.SIGINT)
    _, said = starting.communicate(timeout=90)
    assert starting.returncode == 130
    assert said.endswith("stopped by Ctrl-C; nothing is left running\n")
    assert pids
    assert not alive(pids)
    assert not folder.path.exists()


def test_a_start_that_crashes_says_why_and_leaves_nothing() -> None:
    with pytest.raises(StartError) as error:
        ControlPlane.start("broken", extra_args={"kube-apiserver": ["--no-such-flag"]})
    assert "kube-apiserver ended with exit code 1" in str(error.value)
    assert "unknown flag: --no-such-flag" in str(error.value)
    assert instance.all_folders() == []


def test_the_command_line_from_up_to_down(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--name", "cli", "--nodes", "2", "--profile", "p4d:1,l4", "--classes"]) == 0
    capsys.readouterr()
    assert main(["nodes", "--name", "cli", "--profile", "l4"]) == 0
    assert "1 nodes added" in capsys.readouterr().err
    assert main(["status"]) == 0
    assert ": ready, v1.37.2, https://127.0.0.1:" in (status := capsys.readouterr().out)
    assert ", 3 nodes, " in status
    assert main(["kubeconfig", "--name", "cli"]) == 0
    kubeconfig = capsys.readouterr().out.strip()
    assert Path(kubeconfig).stat().st_mode & 0o077 == 0
    plane = ControlPlane.attach("cli")
    assert str(plane.kubeconfig) == kubeconfig
    assert plane.kubectl("get", "deviceclasses", "-o", "name").split() == [
        "deviceclass.resource.k8s.io/dra.net",
        "deviceclass.resource.k8s.io/gpu.nvidia.com",
    ]
    pids = list(plane.pids().values())
    assert main(["up", "--name", "cli"]) == 1
    assert "instance cli runs already" in capsys.readouterr().err
    assert main(["down", "--name", "cli"]) == 0
    assert not alive(pids)
    assert main(["kubeconfig", "--name", "cli"]) == 1
    assert "instance cli is not up" in capsys.readouterr().err


def test_what_a_killed_supervisor_leaves_is_seen_and_cleaned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--name", "stale"]) == 0
    pids = list(ControlPlane.attach("stale").pids().values())
    os.kill(parent(pids[0]), signal.SIGKILL)
    eventually(lambda: not alive(pids), 60)
    capsys.readouterr()
    assert main(["status"]) == 0
    assert "stale: dead, left over from a killed run" in capsys.readouterr().out
    assert main(["up", "--name", "stale"]) == 0
    assert main(["down", "--name", "stale"]) == 0
    assert instance.all_folders() == []


def test_a_supervisor_that_hangs_is_killed_by_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane_module, "_STOP_SECONDS", 0.5)
    assert main(["up", "--name", "hung"]) == 0
    pids = list(ControlPlane.attach("hung").pids().values())
    os.kill(parent(pids[0]), signal.SIGSTOP)
    assert main(["down", "--name", "hung"]) == 0
    assert not alive(pids)
    assert instance.all_folders() == []


def test_the_apiserver_comes_back_on_its_port_with_everything() -> None:
    with ControlPlane.start("restarted") as plane:
        plane.kubectl("create", "namespace", "kept")
        token = plane.kubectl("create", "token", "default").strip()
        account = Client(plane.server, token, read_kubeconfig(plane.kubeconfig)[2])
        account.get("/version")  # so that it has a connection, which the server is going to close
        before = plane.pids()
        port = int(plane.server.rpartition(":")[2])
        plane.stop_apiserver()
        with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
            probe.connect(("127.0.0.1", port))
        plane.start_apiserver()
        after = plane.pids()
        assert {name for name in before if before[name] != after[name]} == {"kube-apiserver"}
        assert "kept" in plane.kubectl("get", "namespaces", "-o", "name")
        review = account.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
        plane.add_nodes("l4")  # controllers, and so the taint's removal, have recovered
