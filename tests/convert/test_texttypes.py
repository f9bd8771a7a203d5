"""One key, one type: what texts are taken for, and what they become."""

from __future__ import annotations

import pytest

from dra_operator.convert.texttypes import Evidence, TextType, classify, fits, version

B, N, V, Q, S = TextType.BOOL, TextType.INT, TextType.VERSION, TextType.QUANTITY, TextType.STRING


@pytest.mark.parametrize(
    ("texts", "key", "wanted"),
    [
        ("true false", "nvlink", B),
        ("true yes", "nvlink", S),
        ("40 80 100", "memory-gb", N),
        ("-3 0 7", "offset", N),
        ("9223372036854775807", "x", N),
        ("9223372036854775808", "x", S),
        ("007 008", "serial", S),
        ("8.0 10.0", "compute-capability", V),
        ("8 8.6 9.0", "compute-capability", V),
        ("535.104.05 550.54.15", "driver", V),
        ("v1.2 v1.10", "release", V),
        ("1.2.3-rc1 1.2.3", "x", V),
        ("0.25 0.5", "share", Q),
        ("0.25 1 1.5", "x", Q),
        ("0.9 1.10", "driver-version", V),
        ("1.05 1.5", "x", Q),
        ("12.25 12.5", "latency-ms", Q),
        ("12.25 12.5", "x", V),
        ("-0.5 1.5", "x", Q),
        ("40Gi 80Gi", "memory", Q),
        ("512Mi 1", "memory", Q),
        ("80 n/a", "memory-gb", S),
        ("10.0.0.1", "ip", S),
        ("A100 H100", "model", S),
        ("1e5", "x", S),
        ("5G", "network", S),
        ("", "x", S),
    ],
)
def test_types(texts: str, key: str, wanted: TextType) -> None:
    assert classify(texts.split(), [key]) is wanted


@pytest.mark.parametrize(
    ("evidence", "wanted"),
    [
        (Evidence({"m"}, published={"80"}, ordered={"40"}), N),
        (Evidence({"m"}, published={"80"}, ordered={"40.5"}), V),
        (Evidence({"m"}, published={"80"}, equal={"any"}), N),
        (Evidence({"m"}, published={"80"}, equal={"80.0"}), V),
        (Evidence({"m"}, equal={"80", "any"}), S),
        (Evidence({"m"}, equal={"80"}), N),
        (Evidence({"m"}, published={"80"}, forced={S}), S),
        (Evidence({"m"}, published={"80"}, forced={Q}), Q),
        (Evidence({"m"}, published={"8.0"}, forced={Q}), Q),
        (Evidence({"m"}, published={"8"}, forced={V}), V),
        (Evidence({"m"}, published={"x"}, forced={Q}), S),
    ],
)
def test_evidence(evidence: Evidence, wanted: TextType) -> None:
    assert evidence.type() is wanted


@pytest.mark.parametrize(
    ("text", "wanted"), [("8.0", "8.0.0"), ("8", "8.0.0"), ("v1.2", "1.2.0"), ("535.104.05", "535.104.5")]
)
def test_versions(text: str, wanted: str) -> None:
    assert version(text) == wanted


def test_fits() -> None:
    assert [fits("8", kind) for kind in (B, N, V, Q, S)] == [False, True, True, True, True]
    assert [fits("-8.5", kind) for kind in (B, N, V, Q, S)] == [False, False, False, True, True]
    assert [fits("true", kind) for kind in (B, N, V, Q, S)] == [True, False, False, False, True]
