"""Semantic versions: strict reading, precedence, normalisation."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dra_operator.api.semver import Semver

# The order of semver.org §11.
ASCENDING = [
    "0.0.1",
    "1.0.0-0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


def test_precedence() -> None:
    versions = [Semver.parse(text) for text in ASCENDING]
    assert sorted(sorted(versions, key=str)) == versions
    assert all(low < high for low, high in pairwise(versions))


def test_build_metadata_does_not_count_but_is_kept() -> None:
    one, other = Semver.parse("1.0.0-rc.1+a.7"), Semver.parse("1.0.0-rc.1+b")
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "1.0.0-rc.1+a.7"


def test_parts() -> None:
    version = Semver.parse("8.10.12-x")
    assert (version.major, version.minor, version.patch, version.prerelease) == (8, 10, 12, ("x",))


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.00.0", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+"),
        *("a.b.c", "1.0.-1", " 1.0.0", "18446744073709551616.0.0", "1.0.0-18446744073709551616", "1.0.0+a b"),
        *("1.0.0-ä", "1.0.٣"),
    ],
)
def test_what_is_no_version_says_why(text: str) -> None:
    with pytest.raises(ValueError, match="version"):
        Semver.parse(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("v1.0.0", "1.0.0"),
        ("1", "1.0.0"),
        ("v1.2", "1.2.0"),
        ("01.002.0003", "1.2.3"),
        ("000.0.0", "0.0.0"),
        ("1.0.0-rc1", "1.0.0-rc1"),
        ("18446744073709551615.0.0", "18446744073709551615.0.0"),
    ],
)
def test_normalised(text: str, normal: str) -> None:
    assert str(Semver.parse(text, normalize=True)) == normal


@pytest.mark.parametrize("text", ["", "vv1.0.0", "V1.0.0", "1-rc1", "1.0+x", "1.2.3.4"])
def test_beyond_normalisation(text: str) -> None:
    with pytest.raises(ValueError, match="version"):
        Semver.parse(text, normalize=True)
