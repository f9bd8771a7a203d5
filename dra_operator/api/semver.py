"""Semantic versions 2.0.0, as device attributes of type `version` hold them.

Strict by default; `normalize=True` takes "v1.2" as well, the way the CEL function `semver(text, true)` does.
Ranges and increments are not here: nothing in the resource API has them.

Source: semver.org 2.0.0; k8s.io/apiserver `pkg/cel/library` for the normalisation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering

__all__ = ["Semver"]

_NO = "not a semantic version"
_UINT64_MAX = 2**64 - 1
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)

Precedence = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


@total_ordering
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Semver:
    """A version. Equality, order and hash follow precedence, without build metadata; `str` has that too."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    # The sort key: releases come after pre-releases, numeric identifiers before alphanumeric ones.
    precedence: Precedence = field(init=False, repr=False)

    @staticmethod
    def parse(text: str, normalize: bool = False) -> Semver:
        """Read a version; `normalize` repairs a leading "v", missing minor and patch, leading zeros first.

        Raises ValueError with the reason.
        """
        return _parse(_normalized(text) if normalize else text)

    def __post_init__(self) -> None:
        identifiers = tuple((False, int(part), "") if part.isdigit() else (True, 0, part) for part in self.prerelease)
        key = self.major, self.minor, self.patch, not identifiers, identifiers
        object.__setattr__(self, "precedence", key)

    def __eq__(self, other: object) -> bool:
        return self.precedence == other.precedence if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: Semver) -> bool:
        return self.precedence < other.precedence

    def __gt__(self, other: Semver) -> bool:
        return self.precedence > other.precedence

    def __hash__(self) -> int:
        return hash(self.precedence)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(self.prerelease)
        if self.build:
            text += "+" + ".".join(self.build)
        return text

    def __repr__(self) -> str:
        return f"Semver({str(self)!r})"


@lru_cache(maxsize=8192)
def _parse(text: str) -> Semver:
    if not text:
        raise ValueError("a version must not be empty; write MAJOR.MINOR.PATCH")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError(f"{_NO}: no Major.Minor.Patch elements found in {text!r}")
    patch, plus, build_text = parts[2].partition("+")
    patch, dash, pre_text = patch.partition("-")
    major, minor = _number(parts[0], "major", text), _number(parts[1], "minor", text)
    prerelease = tuple(pre_text.split(".")) if dash else ()
    build = tuple(build_text.split(".")) if plus else ()
    for part in prerelease:
        _check_identifier(part, "pre-release", text)
        if _DIGITS.fullmatch(part):
            _number(part, "pre-release", text)
    for part in build:
        _check_identifier(part, "build metadata", text)
    return Semver(major, minor, _number(patch, "patch", text), prerelease, build)


def _number(part: str, kind: str, text: str) -> int:
    if not _NUMBER.fullmatch(part):
        raise ValueError(f"{_NO}: {kind} number {part!r} of {text!r} is not digits without leading zeros")
    if len(part) > 20 or int(part) > _UINT64_MAX:
        raise ValueError(f"{_NO}: {kind} number {part!r} of {text!r} exceeds 64 bits")
    return int(part)


def _check_identifier(part: str, kind: str, text: str) -> None:
    if not _IDENTIFIER.fullmatch(part):
        raise ValueError(f"{_NO}: {kind} {part!r} of {text!r} must be letters, digits and hyphens")


def _normalized(text: str) -> str:
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise ValueError(f"{_NO}: the short version {text!r} cannot have a pre-release or build metadata")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1] in tuple("0123456789") else "0" + rest
