"""`kubectl-dra solve`: allocation problems in, answers out, as JSON Lines.

The format of a problem is that of the conformance cases (`allocator.document`). No cluster and no queue is involved: each problem is
solved on what it says is there, or with `--fill` its claims one after another, each on top of the last.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Annotated, Any

import orjson
import typer

from dra_operator.allocator import Failed, Problem, RecentDemand, Result, Solved, Strategy
from dra_operator.allocator import solve as solve_problem
from dra_operator.allocator.document import Document, read_document
from dra_operator.api.claims import ResourceClaim
from dra_operator.api.errors import SHAPE_ERRORS, InvalidObject, describe
from dra_operator.cli.documents import BadDocument, read_documents
from dra_operator.cli.failures import FAILED, CommandFailed
from dra_operator.cli.inputs import FILL_IT, Unreadable, name_of, read_bytes, text_of
from dra_operator.cli.output import error
from dra_operator.explain.summary import blocker_of_search

__all__ = ["answer", "solve"]


def solve(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="One problem as JSON or YAML, or JSON Lines: {name?, features?, node | nodes, classes, slices, claims, allocated?}.",
        ),
    ],
    strategy: Annotated[
        Strategy, typer.Option(help="Which of several solutions to take; none changes what is solvable.")
    ] = Strategy.Fragmentation,
    fill: Annotated[
        bool,
        typer.Option("--fill", help="Allocate the claims of one problem one after another and say how long that took."),
    ] = False,
) -> None:
    """Solve allocation problems offline.

    Answers are JSON Lines on stdout: {"name", "node", "results"}, {"name", "results": null, "explanation"} or {"name", "error"}.
    Exit code 1 if a problem could not be read.

    Example: kubectl-dra solve problem.json --strategy FirstFit
    """
    bad = False
    began = perf_counter()
    for number, data in enumerate(read_problems(file)):
        name = _name(data, number)
        try:
            document = _read(data)
        except CommandFailed as problem:
            bad = True
            error(f"{name}: {problem.message}")
            _write({"name": name, "error": problem.message})
            continue
        if fill:
            _fill(document, strategy, began)
        else:
            result = solve_problem(
                Problem(document.claims, document.nodes, strategy=strategy), document.inventory.snapshot()
            )
            _write(answer(name, result, document.claims))
        began = perf_counter()
    sys.stdout.flush()
    if bad:
        raise CommandFailed("", FAILED)


def read_problems(file: str) -> Iterator[Any]:
    """The problems of a file, one after another: JSON, JSON Lines or YAML. Raises CommandFailed."""
    try:
        raw = read_bytes(file)
    except Unreadable as problem:
        raise CommandFailed(str(problem)) from None
    try:
        # The usual case, and with thousands of nodes a large one.
        yield orjson.loads(raw)
        return
    except orjson.JSONDecodeError:
        pass
    try:
        text = text_of(raw, file)
    except Unreadable as problem:
        raise CommandFailed(str(problem)) from None
    empty = True
    for document in read_documents(text, json_only=file.endswith((".json", ".jsonl"))):
        empty = False
        if isinstance(document, BadDocument):
            yield CommandFailed(f"{name_of(file)}:{document.line}: {document.message}")
        else:
            yield document.value
    if empty:
        raise CommandFailed(f"{name_of(file)}: holds no problem; {FILL_IT}")


def _read(data: Any) -> Document:
    """One problem. Raises CommandFailed, whatever is wrong with it."""
    if isinstance(data, CommandFailed):
        raise data
    try:
        return read_document(data)
    except InvalidObject as problem:
        raise CommandFailed(str(problem)) from None
    except SHAPE_ERRORS as problem:
        text = str(problem) if type(problem) is ValueError else f"cannot be read ({describe(problem, data)})"
        raise CommandFailed(text) from None


def answer(name: str, result: Result, claims: Sequence[ResourceClaim]) -> dict[str, Any]:
    """One answer as it is printed."""
    if isinstance(result, Solved):
        return {"name": name, "node": result.node, "results": [item.to_dict() for item in result.allocations]}
    if isinstance(result, Failed):
        return {"name": name, "error": result.message}
    return {"name": name, "results": None, "explanation": blocker_of_search(result, claims, ()).message}


def _name(data: Any, number: int) -> str:
    named = data.get("name") if isinstance(data, dict) else None
    return str(named) if named else f"problem-{number + 1}"


def _write(line: dict[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(line).decode() + "\n")


def _fill(document: Document, strategy: Strategy, began: float) -> None:
    """Allocate claim after claim, each on top of the last; the answers, then one line of figures."""
    inventory, recent = document.inventory, RecentDemand()
    # The order written matters to FirstFit only; else all nodes are candidates.
    nodes = document.nodes if strategy is Strategy.FirstFit and list(document.nodes) != inventory.node_names else None
    inventory.snapshot()
    # What was loaded stays: do not have the collector walk through it again and again.
    gc.collect()
    gc.freeze()
    loaded = perf_counter()
    results: list[Result] = []
    for number, claim in enumerate(document.claims):
        recent.note(claim.spec)
        problem = Problem((claim,), nodes, strategy=strategy, demand=recent.demand)
        result = solve_problem(problem, inventory.snapshot())
        if isinstance(result, Solved):
            # UIDs may be missing or given twice in a file.
            inventory.use(f"claim #{number}", result.allocations[0])
        results.append(result)
    done = perf_counter()
    gc.unfreeze()
    for claim, result in zip(document.claims, results, strict=True):
        _write(answer(claim.meta.name, result, (claim,)))
    allocated = sum(isinstance(result, Solved) for result in results)
    print(
        f"claims={len(results)} allocated={allocated} load_seconds={loaded - began:.3f} seconds={done - loaded:.3f}",
        flush=True,
    )
