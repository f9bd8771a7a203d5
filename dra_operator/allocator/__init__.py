"""Solving one unit: which devices, on which node.

`solve` searches, `validate` checks an allocation with other code, written from the API documentation. Time, priorities and queues are
not known here.
"""

from dra_operator.allocator.candidates import Candidates, candidates
from dra_operator.allocator.demand import Besides, RecentDemand, by_spec, kinds_of
from dra_operator.allocator.problem import (
    Bar,
    Demand,
    Expected,
    Failed,
    Problem,
    RequestStats,
    Result,
    Room,
    Rooms,
    SelectorWarning,
    Solved,
    Strategy,
    UnitConstraint,
    Unsolved,
)
from dra_operator.allocator.solving import attempt, solve
from dra_operator.allocator.trial import Trial, trial
from dra_operator.allocator.validation import Violation, validate

__all__ = [
    "Bar",
    "Besides",
    "Candidates",
    "Demand",
    "Expected",
    "Failed",
    "Problem",
    "RecentDemand",
    "RequestStats",
    "Result",
    "Room",
    "Rooms",
    "SelectorWarning",
    "Solved",
    "Strategy",
    "Trial",
    "UnitConstraint",
    "Unsolved",
    "Violation",
    "attempt",
    "by_spec",
    "candidates",
    "kinds_of",
    "solve",
    "trial",
    "validate",
]  # fmt: skip
