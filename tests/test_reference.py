"""`docs/reference.md` against the code: each word that the operator writes stands there, and no other does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from dra_operator.api.reports import Phase
from dra_operator.cluster.rest import BY_KIND
from dra_operator.engine import names
from dra_operator.operator.metrics import Metrics

ROOT = Path(__file__).parents[1]
#: Where reasons are chosen.
ENGINE = ("engine", "queue", "explain", "preemption")
#: Where words of the API are: they are no reasons unless said to be.
API = ("api", "allocator")
WORD = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")
#: Words that are neither reasons nor the API's: of programs, types, and steps that are never reported.
OTHERS = {
    "AlwaysAllow",
    "Blocked",
    "Gi",
    "Incomplete",
    "Item",
    "Key",
    "Ki",
    "Mi",
    "NotPlaced",
    "Placed",
    "Placing",
    "PodGroup",
    "Rank",
    "ReplicationController",
    "TimedOut",
    "Ti",
    "Unmanaged",
}


@cache
def trees(packages: tuple[str, ...]) -> tuple[ast.Module, ...]:
    files = (file for package in packages for file in sorted((ROOT / "dra_operator" / package).rglob("*.py")))
    return tuple(ast.parse(file.read_text()) for file in files)


def literals(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and WORD.fullmatch(each.value):
            yield each.value


def words(packages: tuple[str, ...]) -> set[str]:
    """CamelCase words in the code of packages, without those of `__all__`."""
    statements = [
        statement
        for tree in trees(packages)
        for statement in tree.body
        if not (isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__")
    ]
    return {word for statement in statements for word in literals(statement)}


def event_arguments(number: int) -> set[str]:
    """What stands as this argument in all calls of `State.event`: subject, type, reason, action, note."""
    return {
        word
        for tree in trees(ENGINE)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "event"
        for word in literals(call.args[number])
    }


def section(title: str) -> str:
    text = (ROOT / "docs" / "reference.md").read_text()
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the section's table, without its head."""
    lines = [line.strip("| ").split(" | ") for line in section(title).splitlines() if line.startswith("|")]
    return lines[2:]


def first_words(title: str) -> set[str]:
    return {word for row in rows(title) for word in re.findall(r"`([^`]+)`", row[0])}


def told() -> set[str]:
    """All that the page says in CamelCase and as code."""
    return set(re.findall(rf"`({WORD.pattern})`", (ROOT / "docs" / "reference.md").read_text()))


def test_every_reason_is_explained() -> None:
    known = words(API) | set(BY_KIND) | set(Phase) | event_arguments(1) | event_arguments(3) | OTHERS
    unknown = words(ENGINE) - known - told()
    assert unknown == set(), "explain them in docs/reference.md, or say in OTHERS that they are no reasons"


def test_every_word_that_is_explained_is_written_by_somebody() -> None:
    assert told() - words((*ENGINE, "operator")) - words(API) - set(BY_KIND) == set()


def test_events_are_all_there() -> None:
    assert event_arguments(2) - first_words("Events") == set()
    assert first_words("Events") - words((*ENGINE, "operator")) == set()


@pytest.mark.parametrize(
    "name",
    sorted(
        value
        for key, value in vars(names).items()
        if isinstance(value, str) and "dra-operator.dev/" in value and not key.startswith("_")
    ),
)
def test_names_put_on_objects_are_explained(name: str) -> None:
    assert f"`{name}`" in section("Labels, annotations and other names")


def test_metrics_are_all_there_with_their_labels() -> None:
    metrics = {
        metric._name + "_total" * (metric._type == "counter"): (
            metric._labelnames,
            f"{metric._type}: {metric._documentation}",
        )
        for metric in vars(Metrics()).values()
        if hasattr(metric, "_labelnames")
    }
    found = {row[0].strip("`"): (tuple(re.findall(r"`([^`]+)`", row[1])), row[2]) for row in rows("Metrics")}
    assert found == metrics


def fields_of_policy(schema: dict[str, object], prefix: str = "") -> Iterator[str]:
    """Dotted names of the leaves of a policy's spec, selectors and lists as one."""
    for name, value in schema["properties"].items():  # type: ignore[attr-defined]
        if "properties" in value and not name.endswith("Selector"):
            yield from fields_of_policy(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_field_of_a_policy_is_in_its_table() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "allocationpolicies.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    table = (ROOT / "docs" / "policies.md").read_text().partition("## Fields")[2].partition("\n## ")[0]
    named: set[str] = set()
    for line in table.splitlines():
        before = ""
        for word in re.findall(r"`([\w.]+)`", line.split(" | ")[0]):
            # A second field of a row stands without the part that it has in common with the first.
            named.add(word if "." in word else f"{before}{word}")
            before = word.rpartition(".")[0] + "." if "." in word else before
    fields = set(fields_of_policy(spec))
    assert fields - named == set()
    assert {name for name in named if "." in name} - fields == set()


def test_every_phase_is_in_the_table_of_phases() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    assert {f"| {phase} |" for phase in Phase if f"\n| {phase} |" not in text} == set()
