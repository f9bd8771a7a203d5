"""`kubectl-dra snapshot`: the objects of a cluster in one file that `simulate`, `explain`, `top` and `lint` read.

Written page by page, as they arrive; a cluster of any size is never held whole. What nobody here reads is left out (images,
environments, volumes, managed fields).
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from dra_operator.cli.live import ContextOption, KubeconfigOption
from dra_operator.cli.output import check_writable, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dra_operator.cluster.rest import Resource


def snapshot(
    output_file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; default: standard output.")
    ] = None,
    anonymize: Annotated[
        bool,
        typer.Option("--anonymize", help="Put hashes in the place of names, and leave out what free text there is."),
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Save a cluster's objects in one YAML file that the other commands read.

    ResourceClaims, templates, classes, slices, taint rules, pods, nodes, namespaces, the workloads that make pods, and the operator's
    own objects. Nothing is written to the cluster. With --anonymize equal names get equal hashes, so that all references still hold;
    the hashes differ from snapshot to snapshot.

    Example: kubectl-dra snapshot -o cluster.yaml && kubectl-dra simulate -f cluster.yaml --remove-node node-3
    """
    from dra_operator.cli.live import stream_cluster
    from dra_operator.cli.progress import Progress

    change: Any = None
    if anonymize:
        from dra_operator.cli.anonymity import Anonymizer

        change = Anonymizer(os.urandom(16)).object
    count = 0
    if output_file is not None:
        check_writable(output_file)
    with _opened(output_file) as stream, Progress() as progress:

        def write(resource: Resource, items: list[dict[str, Any]]) -> None:
            nonlocal count
            for item in items:
                stream.write(document(item if change is None else change(item)))
                count += 1
                progress.show(f"{count} objects, at {resource.plural}")

        stream_cluster(kubeconfig, context, write)
    where = f" in {output_file}" if output_file is not None else ""
    note(f"{count} objects{where}")


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is there only once it is whole. Raises OSError."""
    if path is None:
        yield sys.stdout
        return
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            yield stream
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def document(item: dict[str, Any]) -> str:
    """One object as a YAML document."""
    import yaml  # type: ignore[import-untyped]

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = type("Plain", (dumper,), {"ignore_aliases": lambda self, data: True})
    return "---\n" + str(yaml.dump(item, Dumper=plain, sort_keys=False, allow_unicode=True, width=2**30))
