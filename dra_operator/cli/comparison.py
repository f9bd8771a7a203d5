"""Two runs side by side: which claims end in another phase, on another node, or after another wait.

A run is what manifests lead to, or a result saved with `simulate -o json` (or yaml). Claims are matched by name; generated names,
which differ from run to run, by what is not generated about them.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dra_operator.cli import endstate
from dra_operator.cli.documents import Document, read_documents
from dra_operator.cli.failures import CommandFailed
from dra_operator.cli.manifests import Manifests, read_text
from dra_operator.cli.output import OutputFormat, Printer, print_data, print_table

_WAITED = re.compile(r" after (\d+) s$")
#: What generateName appends (and the hash of a ReplicaSet's template).
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?=-|$)")
MET = ("Allocated", "Reserved")


class Fate(NamedTuple):
    """How a claim fared. `wait`: whole seconds in the queue until it got devices, all its waits together; None: it never did."""

    phase: str
    node: str | None
    wait: int | None


class Difference(NamedTuple):
    """`before` or `after` is None where only one run has the claim. `name`: as in the second run, else in the first."""

    namespace: str
    name: str
    before: Fate | None
    after: Fate | None

    @property
    def changed(self) -> list[str]:
        if self.before is None:
            return ["added"]
        if self.after is None:
            return ["removed"]
        pairs = zip(Fate._fields, self.before, self.after, strict=True)
        return [name for name, before, after in pairs if before != after]


def compare_runs(runs: tuple[str, str], until: float | None, output: OutputFormat, seed: int) -> bool:
    """Print the differences; False if something in an input could not be used. Raises CommandFailed."""
    (first, fine), (second, fine_too) = (_result(path, until, seed) for path in runs)
    fates = fates_of(first), fates_of(second)
    found = differences(*fates)
    if not (fine and fine_too) and not any(fates):
        return False
    if output is OutputFormat.TABLE:
        _print(found, fates, runs)
    else:
        print_data(_data(found, fates), output)
    return fine and fine_too


def _result(path: str, until: float | None, seed: int) -> tuple[Mapping[str, Any], bool]:
    """What a run came to, and whether its input was all right."""
    saved = _saved(path)
    if saved is not None:
        return saved, True
    from dra_operator.cli.simulation import play_files, result

    run = play_files([path], until, seed)
    return result(run), not run.bad


def _saved(path: str) -> Mapping[str, Any] | None:
    """A saved result; None where the path holds something else, or cannot be read as one file."""
    if path == "-":
        raise CommandFailed("--compare reads files; save standard input in one")
    if not path.endswith((".json", ".yaml", ".yml")):
        return None
    read = read_text(path, Manifests())
    if read is None:
        return None
    document = next(iter(read_documents(read[1], json_only=path.endswith(".json"))), None)
    value = document.value if isinstance(document, Document) else None
    if not isinstance(value, dict) or "kind" in value or not isinstance(value.get("claims"), list):
        return None
    try:
        fates_of(value)
    except (KeyError, TypeError, AttributeError) as failure:
        raise CommandFailed(f"{path}: is no result of simulate: {type(failure).__name__}: {failure}") from None
    return value


def fates_of(result: Mapping[str, Any]) -> dict[tuple[str, str], Fate]:
    """By namespace and name. Raises KeyError, TypeError, AttributeError for what is no result."""
    waits: dict[str, int] = defaultdict(int)
    for event in result.get("events") or ():
        if event["reason"] in MET:
            found = _WAITED.search(event["message"])
            waits[event["object"]] += int(found[1]) if found else 0
    fates = {}
    for claim in result["claims"]:
        key = claim["namespace"], claim["name"]
        allocated = bool(claim["devices"]) or claim["phase"] in MET
        fates[key] = Fate(claim["phase"], claim["node"], waits["claim/{}/{}".format(*key)] if allocated else None)
    return fates


def differences(before: Mapping[tuple[str, str], Fate], after: Mapping[tuple[str, str], Fate]) -> list[Difference]:
    """By namespace and name, those only that differ."""
    pairs = [(key, key) for key in before.keys() & after.keys()]
    pairs += _alike(before, after)
    matched_before, matched_after = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    found = [Difference(*new, before[old], after[new]) for old, new in pairs]
    found += [Difference(*key, before[key], None) for key in before.keys() - matched_before]
    found += [Difference(*key, None, after[key]) for key in after.keys() - matched_after]
    return sorted(item for item in found if item.changed)


Key = tuple[str, str]


def _alike(before: Mapping[Key, Fate], after: Mapping[Key, Fate]) -> Iterable[tuple[Key, Key]]:
    """Claims of generated names that stand for each other: those that fared alike first, then in order."""
    stems: dict[Key, tuple[list[Key], list[Key]]] = defaultdict(lambda: ([], []))
    for side, (these, others) in enumerate(((before, after), (after, before))):
        for key in sorted(these.keys() - others.keys()):
            if _GENERATED.search(key[1]):
                stems[key[0], _GENERATED.sub("-*", key[1])][side].append(key)
    for old, new in stems.values():
        for width in (3, 2, 1, 0):
            for key in list(old):
                same = next((other for other in new if before[key][:width] == after[other][:width]), None)
                if same is not None:
                    old.remove(key)
                    new.remove(same)
                    yield key, same


def _data(found: list[Difference], fates: tuple[Mapping[Key, Fate], Mapping[Key, Fate]]) -> dict[str, Any]:
    return {
        "claims": [
            {
                "namespace": item.namespace,
                "name": item.name,
                "changed": item.changed,
                "before": None if item.before is None else item.before._asdict(),
                "after": None if item.after is None else item.after._asdict(),
            }
            for item in found
        ],
        "summary": {name: _summary(side) for name, side in zip(("before", "after"), fates, strict=True)},
    }


def _summary(fates: Mapping[Key, Fate]) -> dict[str, int]:
    waits = [fate.wait for fate in fates.values() if fate.wait is not None]
    return {"claims": len(fates), "allocated": len(waits), "waited": sum(waits)}


def _print(
    found: list[Difference], fates: tuple[Mapping[Key, Fate], Mapping[Key, Fate]], runs: tuple[str, str]
) -> None:
    printer = Printer(sys.stdout)
    if found:
        rows = [
            (
                item.namespace,
                item.name,
                _pair(item, lambda fate: fate.phase),
                _pair(item, lambda fate: fate.node or "-"),
                _pair(item, lambda fate: "-" if fate.wait is None else f"{fate.wait}s"),
            )
            for item in found
        ]
        print_table(
            printer,
            ("NAMESPACE", "NAME", "PHASE", "NODE", "WAIT"),
            rows,
            {"PHASE": lambda text: endstate.style(text.rpartition(" ")[2])},
        )
        printer.line("")
    for path, side in zip(runs, fates, strict=True):
        total = _summary(side)
        printer.line(
            f"{path}: {total['allocated']} of {total['claims']} claims allocated, {total['waited']} s waited in all"
        )
    if not found:
        printer.line("no claim fares differently")
    printer.flush()


def _pair(item: Difference, text: Any) -> str:
    """`Queued → Reserved`, one word where both are equal, `(none)` for a claim that a run does not have."""
    sides = [("(none)" if fate is None else str(text(fate))) for fate in (item.before, item.after)]
    return sides[0] if sides[0] == sides[1] else " → ".join(sides)
