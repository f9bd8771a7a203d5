"""Instance folders: who is alive, what a killed run leaves, which ports are given."""

import fcntl
import os
import socket
import subprocess
from pathlib import Path

import pytest

from devcluster import instance
from devcluster.instance import PORT_RANGE, Description, InstanceError, Ports


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a/b", "..", "a" * 41, "a b"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InstanceError, match="is no instance name"):
        instance.folder(name)


def test_an_instance_is_alive_while_its_lock_is_held() -> None:
    it = instance.folder("a")
    assert not instance.is_alive(it)
    with instance.acquire(it):
        assert instance.is_alive(it)
        with pytest.raises(InstanceError, match="instance a runs already: `python -m devcluster down --name a`"):
            instance.acquire(it)
    assert not instance.is_alive(it)


def test_a_lock_on_a_removed_folder_is_worth_nothing() -> None:
    it = instance.folder("a")
    old = instance.acquire(it)
    instance.clean(it)
    with instance.acquire(it):
        assert instance.is_alive(it)
    old.close()


def test_acquiring_cleans_what_a_killed_run_has_left() -> None:
    it = instance.folder("a")
    with instance.acquire(it):
        pass
    left = subprocess.Popen(["sleep", "600"], process_group=0)
    instance.record_processes(it, {"etcd": left.pid})
    (it.path / "etcd").mkdir()
    (it.path / "etcd" / "data").write_text("old")
    with instance.acquire(it):
        assert left.wait(5) == -9
        assert [path.name for path in it.path.iterdir()] == ["lock"]


def test_a_process_that_took_over_the_pid_is_left_alone() -> None:
    it = instance.folder("a")
    with instance.acquire(it):
        innocent = subprocess.Popen(["sleep", "600"], process_group=0)
        it.processes.write_text(f'{{"etcd": [{innocent.pid}, "1"]}}')
        instance.clean(it)
        assert innocent.poll() is None
        innocent.kill()
        innocent.wait()
    assert not it.path.exists()


def test_start_times_tell_the_living_from_the_dead() -> None:
    assert instance.start_time(os.getpid()) == instance.start_time(os.getpid())
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert instance.start_time(gone.pid) is None


def test_ports_are_free_low_and_not_given_twice() -> None:
    given: list[int] = []
    for name in ("a", "b", "c"):
        it = instance.folder(name)
        with instance.acquire(it), instance.free_ports() as ports:
            it.write(Description(name, "v1", "/bin", ports))
            given += [ports.etcd, ports.etcd_peer, ports.apiserver, ports.controller_manager, ports.scheduler]
    assert len(set(given)) == 15
    assert all(PORT_RANGE[0] <= port <= PORT_RANGE[1] for port in given)
    for port in given:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_two_starts_choose_ports_one_after_the_other() -> None:
    with instance.free_ports(), open(instance.root() / ".ports.lock") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_descriptions_survive_writing() -> None:
    it = instance.folder("a")
    with instance.acquire(it):
        assert it.read() is None
        described = Description("a", "v1.37.2", "/bin", Ports(1, 2, 3, 4, 5), extra_args={"etcd": ["--x"]}, ready=True)
        it.write(described)
        assert it.read() == described
        assert [other.name for other in instance.all_folders()] == ["a"]
