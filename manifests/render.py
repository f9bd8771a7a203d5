"""Renders `install.yaml`: the resources of `base/`, in order, in one file that `kubectl apply` takes.

The base uses plain resources only, so no kubectl or kustomize is needed, and the comments come along.

    python manifests/render.py           writes install.yaml
    python manifests/render.py --check   exits 1 where it is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

HERE = Path(__file__).resolve().parent
TARGET = HERE / "install.yaml"
HEADER = "# Rendered from manifests/base by `make manifests`: change it there.\n"


def render(base: Path = HERE / "base") -> str:
    """The text of all resources of a kustomization, one YAML document after another."""
    return HEADER + "".join(f"---\n{path.read_text().rstrip()}\n" for path in resources(base))


def resources(folder: Path) -> Iterator[Path]:
    """The files of a kustomization in the order in which it names them. Raises ValueError for anything but plain resources."""
    source = folder / "kustomization.yaml"
    kustomization = YAML(typ="safe").load(source)
    if unknown := sorted(kustomization.keys() - {"apiVersion", "kind", "resources"}):
        raise ValueError(f"{source}: {', '.join(unknown)} is not rendered here, only plain resources are")
    for name in kustomization["resources"]:
        path = folder / name
        if path.is_dir():
            yield from resources(path)
        else:
            yield path


def main(arguments: list[str]) -> int:
    text = render()
    if "--check" not in arguments:
        TARGET.write_text(text)
    elif not TARGET.exists() or TARGET.read_text() != text:
        print(f"{TARGET.name} is not what base/ says: run `make manifests`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
