"""What the texts of one attribute are: numbers, versions, booleans or just text.

The string dialect writes every value as text. One key gets one type, found from all its values in the input together with what
expressions compare it with, so that slices and selectors agree and `'100' >= '40'` and `'10.0' >= '8.0'` hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from dra_operator.api.quantity import Quantity
from dra_operator.api.semver import Semver

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+", re.ASCII)
_VERSION = re.compile(r"v?[0-9]+(\.[0-9]+){1,2}([-+][0-9A-Za-z.+-]+)?", re.ASCII)
_AMOUNT = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei)?", re.ASCII)
_INT64 = range(-(2**63), 2**63)
#: Words in a key that say what dotted numbers under it are, where the numbers alone leave it open.
_VERSION_WORDS = frozenset({"api", "capability", "cuda", "driver", "firmware", "kernel", "release", "version"})
_AMOUNT_WORDS = frozenset(
    {
        "amps", "cores", "cost", "fraction", "gb", "gbps", "ghz", "gib", "gigabytes", "hz", "load", "mb", "mbps", "mhz", "mib", "ms",
        "pct", "percent", "price", "ratio", "seconds", "share", "tb", "tflops", "us", "utilization", "volts", "watts",
    }
)  # fmt: skip


class TextType(Enum):
    """The v1 type that a key's texts become. QUANTITY is a capacity, the others are attributes."""

    BOOL = "boolean"
    INT = "integer"
    VERSION = "version"
    QUANTITY = "quantity"
    STRING = "text"


@dataclass(slots=True)
class Evidence:
    """All that is known of a key (or of several that are compared with one another).

    `published`: values in slices. `ordered`: what expressions compare with by size. `equal`: what they compare with for equality.
    `forced`: types that other uses in expressions ask for.
    """

    keys: set[str] = field(default_factory=set)
    published: set[str] = field(default_factory=set)
    ordered: set[str] = field(default_factory=set)
    equal: set[str] = field(default_factory=set)
    forced: set[TextType] = field(default_factory=set)

    def add(self, other: Evidence) -> None:
        """Take in what is known of another key."""
        self.keys |= other.keys
        self.published |= other.published
        self.ordered |= other.ordered
        self.equal |= other.equal
        self.forced |= other.forced

    def type(self) -> TextType:
        """Texts that are only compared for equality do not change the type of the others: they simply never match."""
        core = self.published | self.ordered
        everything = classify(core | self.equal, self.keys)
        found = classify(core, self.keys) if core and everything is TextType.STRING else everything
        forced = next(iter(self.forced)) if len(self.forced) == 1 else None
        if forced is not None and not core and not self.equal:
            return forced
        if forced is TextType.STRING or (forced is TextType.QUANTITY and found in (TextType.INT, TextType.VERSION)):
            return forced
        if forced is TextType.VERSION and found in (TextType.INT, TextType.QUANTITY):
            return forced if all(map(_is_version_or_integer, core | self.equal)) else found
        return found


def classify(texts: Iterable[str], keys: Iterable[str] = ()) -> TextType:
    """The narrowest type that all the texts have."""
    values = set(texts)
    if not values:
        return TextType.STRING
    if values <= {"true", "false"}:
        return TextType.BOOL
    if all(map(_is_integer, values)):
        return TextType.INT
    if all(_is_integer(value) or _DECIMAL.fullmatch(value) for value in values):
        return TextType.QUANTITY if _are_amounts(values, keys) else TextType.VERSION
    if all(map(_is_version_or_integer, values)):
        return TextType.VERSION
    if all(map(_AMOUNT.fullmatch, values)) and any(value.endswith("i") for value in values):
        return TextType.QUANTITY
    return TextType.STRING


def looks_typed(text: str) -> bool:
    """Whether a text alone would become something else than text."""
    return classify([text]) is not TextType.STRING


def fits(text: str, type: TextType) -> bool:
    """Whether a text is of a type."""
    match type:
        case TextType.BOOL:
            return text in ("true", "false")
        case TextType.INT:
            return _is_integer(text)
        case TextType.VERSION:
            return _is_version_or_integer(text)
        case TextType.QUANTITY:
            return _is_amount(text)
        case TextType.STRING:
            return True


def version(text: str) -> str:
    """The semantic version that a text stands for: `8.0` → `8.0.0`."""
    return str(Semver.parse(text, normalize=True))


def _is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and text != "-0" and len(text) < 21 and int(text) in _INT64


def _is_version_or_integer(text: str) -> bool:
    if not (_VERSION.fullmatch(text) or (_is_integer(text) and not text.startswith("-"))):
        return False
    try:
        Semver.parse(text, normalize=True)
    except ValueError:
        return False
    return True


def _is_amount(text: str) -> bool:
    if not (_AMOUNT.fullmatch(text) or _INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text)):
        return False
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _are_amounts(values: set[str], keys: Iterable[str]) -> bool:
    """Whether numbers, some of them dotted, are amounts (0.25 < 0.5 < 1.25) and not versions (1.5 < 1.25).

    Where every dotted number has one digit after the dot the two orders agree; then they are versions, unless some are
    fractions of one.
    """
    words = {word for key in keys for word in re.split(r"[^a-z0-9]+", key.lower())}
    dotted = [value.split(".") for value in values if "." in value]
    if any(value.startswith("-") for value in values):
        return True
    if words & _VERSION_WORDS:
        return False
    if any(whole == "0" and minor.strip("0") for whole, minor in dotted):
        return True
    if any(len(minor) > 1 and minor.startswith("0") for _, minor in dotted):
        return True
    return any(len(minor) > 1 for _, minor in dotted) and bool(words & _AMOUNT_WORDS)
