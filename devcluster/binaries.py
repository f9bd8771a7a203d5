"""Find the five control plane programs, or build them once and keep them.

The programs are the unmodified upstream ones, linked into one binary by the Go module in `controlplane/`. The
result lives in a per-user cache outside the tree, keyed by the Kubernetes version and a hash of the module, so a
change of either builds anew and a checkout that goes back finds its old one. This module is not about running
them: see `components`.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
MODULE: Final = Path(__file__).with_name("controlplane")
GO_MINIMUM: Final = (1, 26)

Report = Callable[[str], None]

_REPEAT_SECONDS: Final = 15.0  # between two progress lines where the output is not a terminal


class BuildError(Exception):
    """The control plane programs are not there and cannot be built; the text says what to install."""


def ensure(report: Report | None = None) -> Path:
    """Give the folder that holds the five programs, building them first where need be.

    `KUBEBUILDER_ASSETS` wins where it is set, and must then be complete. A build takes about 8 minutes on two
    cores with an empty Go cache; two builds of one version at a time wait for each other.

    Raises `BuildError`.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return _assets(Path(assets))
    folder = cache_folder()
    if _complete(folder):
        return folder
    with _one_build_at_a_time(folder, report or _quiet):
        if not _complete(folder):
            _build(folder, report or _quiet)
    return folder


def cache_folder() -> Path:
    """Where the build for the module as it stands now belongs, whether or not it is there."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((MODULE / name).read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dra-operator" / "controlplane" / f"{kubernetes_version()}-{digest.hexdigest()[:16]}"


def kubernetes_version() -> str:
    """The pinned version, such as `v1.37.2`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{MODULE / 'go.mod'} does not require k8s.io/kubernetes: restore the file")
    return found.group(1)


def _assets(folder: Path) -> Path:
    missing = [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]
    if missing:
        raise BuildError(
            f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(missing)} (all of {', '.join(PROGRAMS)} are needed): "
            "add them, or unset the variable to have them built"
        )
    return folder


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in PROGRAMS)


def _quiet(_line: str) -> None:
    """Progress that nobody asked for."""


@contextmanager
def _one_build_at_a_time(folder: Path, report: Report) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another build of the control plane to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(folder: Path, report: Report) -> None:
    go = _go()
    version = kubernetes_version()
    cores = os.cpu_count() or 1
    minutes = max(2, round(16 / cores))
    report(
        f"building the Kubernetes {version} control plane from source, once: about {minutes} minutes on {cores} "
        "cores with an empty Go cache, more on a busy machine, under a minute with a full cache"
    )
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        _compile(go, version, fresh / "controlplane", report)
        for name in PROGRAMS:
            (fresh / name).symlink_to("controlplane")
        shutil.rmtree(folder, ignore_errors=True)  # an incomplete one
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _go() -> str:
    wanted = ".".join(map(str, GO_MINIMUM))
    repair = (
        f"install Go {wanted} or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder that has "
        f"{', '.join(PROGRAMS)}"
    )
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"the control plane is built from source and there is no Go on the PATH: {repair}")
    # Without this, an old Go would quietly download a newer one.
    local = os.environ | {"GOTOOLCHAIN": "local"}
    said = subprocess.run([go, "env", "GOVERSION"], cwd="/", env=local, capture_output=True, text=True)
    found = re.match(r"go(\d+)\.(\d+)", said.stdout)
    if found is None or (int(found[1]), int(found[2])) < GO_MINIMUM:
        version = said.stdout.strip() or said.stderr.strip() or "of unknown version"
        raise BuildError(f"the control plane needs Go {wanted} or newer, and {go} is {version}: {repair}")
    return go


def _compile(go: str, version: str, target: Path, report: Report) -> None:
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += [f"-X {package}.{name}={value}" for name, value in stamps.items()]
    command = [go, "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"]
    command += ["-ldflags", " ".join(flags), "-o", str(target), "."]
    settings = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    started = last = time.monotonic()
    total = _count_packages(go, settings, report)
    compiled, tail = 0, list[str]()  # only the end of what it says is kept
    process = subprocess.Popen(
        command, cwd=MODULE, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            # With -v the compiler names each package it compiles; whatever is not a bare import path is talk.
            compiled += bool(re.fullmatch(r"[\w.~/-]+", line.strip()))
            tail = [*tail[-30:], line]
            if time.monotonic() - last >= _REPEAT_SECONDS:
                last = time.monotonic()
                report(f"compiled {compiled} of {total} packages (fewer if some are cached), {last - started:.0f} s")
        if process.wait() != 0:
            raise BuildError(f"go build failed in {MODULE}:\n{''.join(tail).rstrip()}")
    finally:
        if process.poll() is None:  # Ctrl-C: go ends its compilers itself
            process.terminate()
            process.wait()
    report(f"built the control plane in {time.monotonic() - started:.0f} s: {target.parent}")


def _count_packages(go: str, settings: dict[str, str], report: Report) -> int:
    """How many there are to compile; on the way the modules are downloaded, which is the part that needs a network."""
    report("finding the modules (about 100 MB are downloaded the first time)")
    listed = subprocess.run(
        [go, "list", "-mod=readonly", "-deps", "."], cwd=MODULE, env=settings, capture_output=True, text=True
    )
    if listed.returncode != 0:
        raise BuildError(f"go cannot get the modules of {MODULE}:\n{_end(listed.stderr)}")
    return len(listed.stdout.splitlines())


def _end(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-30:])


def to_stderr(line: str) -> None:
    """Progress for a person: one line on stderr."""
    print(f"devcluster: {line}", file=sys.stderr, flush=True)
