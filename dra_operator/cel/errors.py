"""What goes wrong with an expression: before it runs (`CompileError`) and while it runs (`EvaluationError`).

The messages carry cel-go's meaning, so that what a user reads here and what kube-scheduler logs can be matched.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CompileError", "CostLimitError", "EvaluationError", "Issue", "Position", "compile_error"]

_MISSING_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)
_LONGEST_SNIPPET = 16_384
_MOST_ISSUES = 100


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in an expression, counted from 1 as editors do."""

    line: int
    column: int

    @staticmethod
    def of(source: str, offset: int) -> Position:
        """The position of a character offset."""
        before = source[:offset]
        return Position(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Issue:
    """One complaint about an expression, at a character offset."""

    offset: int
    message: str


class CompileError(Exception):
    """The expression is not a valid selector. `position` is that of the first complaint."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class EvaluationError(Exception):
    """The expression is valid but has no answer for this device."""

    @property
    def message(self) -> str:
        """The reason, with the repair where one is usual."""
        text = str(self.args[0])
        return text + _MISSING_KEY_HINT if "no such key:" in text else text

    def __str__(self) -> str:
        return self.message


class CostLimitError(EvaluationError):
    """Evaluation was cut off. Unlike other errors `||` and `&&` do not absorb it."""


def compile_error(source: str, issues: list[Issue]) -> CompileError:
    """The complaints as cel-go prints them: place, reason, source line, marker."""
    ordered = sorted(issues, key=lambda issue: issue.offset)
    shown = [_display(source, issue) for issue in ordered[:_MOST_ISSUES]]
    if len(ordered) > _MOST_ISSUES:
        shown.append(f"{len(ordered) - _MOST_ISSUES} more errors were truncated")
    return CompileError("compilation failed: " + "\n".join(shown), Position.of(source, ordered[0].offset))


def _display(source: str, issue: Issue) -> str:
    position = Position.of(source, issue.offset)
    text = f"ERROR: <input>:{position}: {issue.message}"
    line = source.split("\n")[position.line - 1].replace("\t", " ")
    if len(line) > _LONGEST_SNIPPET:
        return text
    return f"{text}\n | {line}\n | {'.' * (position.column - 1)}^"
