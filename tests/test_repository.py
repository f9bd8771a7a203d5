"""What must hold of every file in the repository: it installs anywhere, and it names no machine that it was written on."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
#: Put together, so that this file does not name them itself.
REGISTRY_HOSTS = [
    "".join(parts)
    for parts in (
        ("pypi", ".org"), ("python", "hosted.org"), ("registry.", "npmjs"), ("proxy.", "golang.org"), ("sum.", "golang.org"),
        ("docker", ".io"), ("ghcr", ".io"), ("quay", ".io"), ("gcr", ".io"), ("registry.", "k8s.io"), ("crates", ".io"),
    )
]  # fmt: skip
MACHINE_PATHS = [re.compile(pattern) for pattern in (r"/(?:root|home/\w+|Users/\w+)/", r"(?<![\w.-])/work/")]
#: Programs that need a path of the kind that is looked for here.
PATHS_ALLOWED = {"tests/test_repository.py"}


def files() -> Iterator[Path]:
    """Every text file that git knows or would add; where there is no git (an archive), every text file."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        skipped = {".venv", ".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
        names = [
            os.path.relpath(os.path.join(folder, name), ROOT)
            for folder, below, inside in os.walk(ROOT)
            if not below.__setitem__(slice(None), [each for each in below if each not in skipped])
            for name in inside
        ]
    for name in sorted(set(names)):
        path = ROOT / name
        if path.is_file() and b"\0" not in path.read_bytes()[:4096]:
            yield path


def offending(patterns: list[re.Pattern[str]], allowed: frozenset[str] | set[str] = frozenset()) -> list[str]:
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if name in allowed:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if any(pattern.search(line) for pattern in patterns):
                found.append(f"{name}:{number}: {line.strip()[:120]}")
    return found


def test_no_package_registry_is_named() -> None:
    assert offending([re.compile(rf"(?<![\w-]){re.escape(host)}") for host in REGISTRY_HOSTS]) == []


def test_no_path_of_a_machine_is_named() -> None:
    assert offending(MACHINE_PATHS, PATHS_ALLOWED) == []


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_requirements_are_pinned_by_hash(path: Path) -> None:
    text = path.read_text()
    assert "--index-url" not in text
    assert "--find-links" not in text
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_the_lock_covers_the_project() -> None:
    """A dependency added to pyproject.toml without `make lock` would fail only on a fresh machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for wanted, lock in (
        (project["project"]["dependencies"], "runtime.txt"),
        (project["project"]["dependencies"] + project["dependency-groups"]["dev"], "dev.txt"),
    ):
        locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements" / lock).read_text(), re.MULTILINE))
        names = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", each)[0]).lower() for each in wanted}
        assert names - locked == set(), lock


def test_the_go_module_has_its_sums() -> None:
    module = ROOT / "devcluster" / "controlplane"
    sums = (module / "go.sum").read_text()
    required = re.findall(r"^\s+(\S+) (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    replaced = set(re.findall(r"^\s*(?:replace )?(\S+) => ", (module / "go.mod").read_text(), re.MULTILINE))
    assert required
    for name, version in required:
        assert name in replaced or f"{name} {version}" in sums, name


@pytest.mark.parametrize("name", ["Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", ".ci/run"])
def test_the_repository_has(name: str) -> None:
    assert (ROOT / name).stat().st_size > 0


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make --no-print-directory test" in script.read_text()
    assert "set -euo pipefail" in script.read_text()


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for path in files():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE).group(1).split())  # type: ignore[union-attr]
    documented = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    assert phony == documented
    assert {"setup", "demo", "test", "lint", "cluster", "cluster-demo", "bench", "clean", "help"} <= phony
