"""Text to documents: what YAML means to kubectl, where each document begins, and what is said about broken ones."""

from __future__ import annotations

import orjson
import pytest
import yaml

from dra_operator.cli.documents import MAX_ALIASED, MAX_DEPTH, BadDocument, Document, read_documents


def values(text: str, **options: bool) -> list[object]:
    return [
        item.value if isinstance(item, Document) else f"{item.line}: {item.message}"
        for item in read_documents(text, **options)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("# nothing\n---\n\n--- # nor here\n...\n", []),
        ("a: 1", [{"a": 1}]),
        ("a: 1\n---\nb: 2\n--- # third\nc: 3\n", [{"a": 1}, {"b": 2}, {"c": 3}]),
        ("--- {a: 1}\n", [{"a": 1}]),
        ("%YAML 1.1\n---\na: 1\n...\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("a: 1\r\n---\r\nb: 2\r\n", [{"a": 1}, {"b": 2}]),
        ("a: |\n  ---\n  b\n", [{"a": "---\nb\n"}]),
        ("[{a: b}]", [[{"a": "b"}]]),
        ('{"a": 1}\n{"b": 2}\n', [{"a": 1}, {"b": 2}]),
        ('{"a": 1}\n---\nb: 2\n---\n{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ('{"a": plain}', [{"a": "plain"}]),
        ("on: off\n1: yes\nnull: ~", [{"true": False, "1": True, "null": None}]),
        (
            "[010, 0x1f, 0b11, 0o17, 1_000, -5, +5, 1.50, 1e3, 08, 1:30]",
            [[8, 31, 3, 15, 1000, -5, 5, 1.5, 1000.0, 8.0, "1:30"]],
        ),
        (
            "['1', \"true\", !!str 2, 2026-01-02T03:04:05Z, 1.2.3, '', 40Gi]",
            [["1", "true", "2", "2026-01-02T03:04:05Z", "1.2.3", "", "40Gi"]],
        ),
        (
            "a: &x {p: 1, q: [2]}\nb: *x\nc: {<<: *x, p: 3}",
            [{"a": {"p": 1, "q": [2]}, "b": {"p": 1, "q": [2]}, "c": {"p": 3, "q": [2]}}],
        ),
    ],
)
def test_documents(text: str, expected: list[object]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2]", "2: not YAML: while parsing a flow sequence, did not find expected ',' or ']' (column 2)"),
        (
            "a:\n\tb: 1",
            "2: not YAML: while scanning for the next token, found character that cannot start any token (column 1); indent with spaces, not tabs",
        ),
        ("a: 1\na: 2", "2: the key 'a' is given twice"),
        ("kind: A\nkind: B", "2: the key 'kind' is given twice; objects are kept apart by a line ---"),
        (
            "a: {{ .Values.x }}",
            "1: a key must be plain text, not a list or mapping; this is a template, render it first",
        ),
        ("a: .nan", "1: .nan is not a JSON value; quote it if text is meant"),
        ("a: *b", "1: nothing is anchored as &b"),
        ("a: &b [*b]", "1: nothing is anchored as &b"),
        ("a: !vault x", "1: the tag !vault is not known"),
        ("a: 1\nb: {<<: 1}", "2: << merges mappings only"),
        ('{"a": 1,', "1: not JSON: Expecting property name enclosed in double quotes (column 9)"),
        ("- " * (MAX_DEPTH + 1), f"1: nested more than {MAX_DEPTH} deep"),
    ],
)
def test_broken_documents(text: str, message: str) -> None:
    assert values(text) == [message]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: not JSON: the file is empty"),
        ("a: 1", "1: not JSON: Expecting value (column 1)"),
        ('{"a": NaN}', "1: not JSON: NaN is not a JSON value"),
        ("[" * 300 + "]" * 300, f"1: nested more than {MAX_DEPTH} deep"),
    ],
)
def test_files_named_json_hold_json(text: str, message: str) -> None:
    assert values(text, json_only=True) == [message]


def test_a_broken_document_leaves_the_others() -> None:
    found = list(read_documents("a: 1\n---\nb: *c\n---\nd: 3\n"))
    assert [type(item) for item in found] == [Document, BadDocument, Document]
    assert [item.line for item in found] == [1, 3, 5]


def test_lines_of_documents_and_list_items() -> None:
    first, second = read_documents("kind: List\nitems:\n- a: 1\n\n- b: 2\n---\n# a note\nkind: X\n")
    assert isinstance(first, Document)
    assert [first.lines[id(item)] for item in first.value["items"]] == [3, 5]
    assert second.line == 8


def test_aliases_are_copies() -> None:
    (document,) = read_documents("a: &x [1]\nb: *x")
    assert isinstance(document, Document)
    assert document.value["a"] is not document.value["b"]


def test_alias_bombs_are_refused() -> None:
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 9))
    assert values("l0: &l0 [x]\n" + levels)[0].endswith(f"aliases copy more than {MAX_ALIASED} values")  # type: ignore[attr-defined]


def test_agrees_with_the_loader_of_the_library() -> None:
    devices = [
        {"name": f"gpu-{i}", "attributes": {"memory": {"int": 40}, "uuid": {"string": f"GPU-{i:08x}"}}}
        for i in range(50)
    ]
    documents = [
        {
            "kind": "ResourceSlice",
            "metadata": {"name": f"n{n}"},
            "spec": {"devices": devices, "more": [None, 1.5, True, ""]},
        }
        for n in range(3)
    ]
    assert values(yaml.safe_dump_all(documents)) == list(yaml.safe_load_all(yaml.safe_dump_all(documents)))
    assert values(orjson.dumps(documents).decode()) == [documents]
