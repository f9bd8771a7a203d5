"""Where the control plane programs come from, and what is said when they cannot."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import binaries
from devcluster.binaries import PROGRAMS, BuildError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


def program(path: Path, text: str = "exit 0") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def fake_go(folder: Path, monkeypatch: pytest.MonkeyPatch, *, version: str = "go1.26.3", build: str = "exit 0") -> None:
    """A `go` that says its version, and for `build` runs `build` with the target in $target."""
    find_target = 'while [ $# -gt 0 ]; do [ "$1" = -o ] && target=$2; shift; done'
    program(
        folder / "go",
        f'if [ "$1" = env ]; then echo {version}; exit 0; fi\n[ "$1" = list ] && exit 0\n{find_target}\n{build}',
    )
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_complete_assets_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROGRAMS:
        program(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert binaries.ensure() == tmp_path / "assets"


def test_incomplete_assets_are_an_error_that_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        program(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    with pytest.raises(BuildError, match=r"lacks kube-controller-manager, kube-scheduler .*or unset the variable"):
        binaries.ensure()


def test_without_go_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"no Go on the PATH: install Go 1\.26 or newer .*KUBEBUILDER_ASSETS"):
        binaries.ensure()


@pytest.mark.parametrize("version", ["go1.25.9", "go1.9", "devel"])
def test_an_old_go_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    fake_go(tmp_path / "bin", monkeypatch, version=version)
    with pytest.raises(BuildError, match=rf"needs Go 1\.26 or newer, and .*/go is {version}: install"):
        binaries.ensure()


def test_a_build_leaves_one_link_a_program_and_is_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "builds"
    fake_go(tmp_path / "bin", monkeypatch, build=f'echo x >> {count}; echo "#!/bin/sh" > "$target"; chmod +x "$target"')
    said: list[str] = []
    folder = binaries.ensure(said.append)
    assert folder == binaries.cache_folder() == binaries.ensure()
    assert {path.name for path in folder.iterdir()} == {"controlplane", *PROGRAMS}
    assert all(os.access(folder / name, os.X_OK) for name in PROGRAMS)
    assert count.read_text() == "x\n"
    assert said[0].startswith("building the Kubernetes v1.37.2 control plane from source, once: about ")
    assert said[-1].startswith("built the control plane in ")


def test_a_failed_build_shows_the_compiler_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(tmp_path / "bin", monkeypatch, build="echo 'main.go:3: undefined: x' >&2; exit 1")
    with pytest.raises(BuildError, match="undefined: x"):
        binaries.ensure()
    assert not binaries.cache_folder().exists()
    assert [path.suffix for path in binaries.cache_folder().parent.iterdir()] == [".lock"]


def test_two_builds_at_a_time_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "builds"
    fake_go(tmp_path / "bin", monkeypatch, build=f'echo x >> {count}; echo "#!/bin/sh" > "$target"; chmod +x "$target"')
    lock = binaries.cache_folder().with_name(f"{binaries.cache_folder().name}.lock")
    lock.parent.mkdir(parents=True)
    command = [sys.executable, "-c", "from devcluster import binaries; binaries.ensure(binaries.to_stderr)"]
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        both = [
            subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for process in both:
            assert process.stderr is not None
            assert "waiting for another build" in process.stderr.readline()
    for process in both:
        with process:
            assert process.wait(30) == 0
    assert count.read_text() == "x\n"


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "main.go"])
def test_the_key_follows_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before = binaries.cache_folder()
    shutil.copytree(binaries.MODULE, tmp_path / "module")
    monkeypatch.setattr(binaries, "MODULE", tmp_path / "module")
    assert binaries.cache_folder() == before
    with open(tmp_path / "module" / changed, "a") as file:
        file.write("\n")
    assert binaries.cache_folder() != before
    assert binaries.cache_folder().name.startswith("v1.37.2-")
