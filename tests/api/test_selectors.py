"""Requirements over labels, as kube-scheduler reads them: rows."""

from __future__ import annotations

import pytest

from dra_operator.api.errors import InvalidField
from dra_operator.api.selectors import NodeSelector, Requirement


@pytest.mark.parametrize(
    ("label", "operator", "bound", "matches"),
    [
        ("5", "Gt", "4", True),
        ("5", "Gt", "5", False),
        ("-5", "Lt", "+4", True),
        ("005", "Gt", "4", True),
        ("1_000", "Gt", "4", False),
        (" 5", "Gt", "4", False),
        ("٥", "Gt", "4", False),
        ("9223372036854775807", "Gt", "4", True),
        ("9223372036854775808", "Gt", "4", False),
        ("9" * 5000, "Gt", "4", False),
        ("five", "Lt", "4", False),
        (None, "Lt", "4", False),
    ],
)
def test_numbers_are_those_that_go_reads(label: str | None, operator: str, bound: str, matches: bool) -> None:
    requirement = Requirement.from_dict({"key": "k", "operator": operator, "values": [bound]})
    assert requirement.matches({} if label is None else {"k": label}) is matches


@pytest.mark.parametrize("bound", ["", "x", "1_0", "9223372036854775808", "9" * 5000])
def test_a_bound_that_is_no_number_is_refused(bound: str) -> None:
    with pytest.raises(InvalidField, match="needs exactly one integer value"):
        Requirement.from_dict({"key": "k", "operator": "Gt", "values": [bound]})


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_values_are_found_however_many_there_are(count: int) -> None:
    values = [f"v{number}" for number in range(count)]
    among = Requirement.from_dict({"key": "k", "operator": "In", "values": values})
    others = Requirement.from_dict({"key": "k", "operator": "NotIn", "values": values})
    assert [among.matches({"k": value}) for value in (values[0], values[-1], "x")] == [True, True, False]
    assert [others.matches({"k": value}) for value in (values[0], values[-1], "x")] == [False, False, True]
    assert among == Requirement.from_dict({"key": "k", "operator": "In", "values": values})
    assert hash(among) == hash(Requirement.from_dict({"key": "k", "operator": "In", "values": values}))


def test_naming_the_node_in_each_term_does_not_change_its_size() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]} for _ in range(3)]
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    sizes = [
        NodeSelector.from_dict({"nodeSelectorTerms": [{**term, **more} for term in terms]}).size for more in ({}, field)
    ]
    assert sizes == [6, 6]
