"""Findings for people, for programs, for code scanning (SARIF) and for GitHub's annotations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import dra_operator
from dra_operator.api.fieldpath import path_text
from dra_operator.cli.output import OutputFormat, Printer, print_data
from dra_operator.lint.findings import RULES, Finding


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


@dataclass(frozen=True, slots=True)
class Located:
    """A finding in a file. `line` 0 stands for the file as a whole; `title` names the object, "" where none could be read."""

    file: str
    line: int
    title: str
    finding: Finding


def print_findings(findings: Sequence[Located], form: Form) -> None:
    match form:
        case Form.TABLE:
            _print_lines(findings)
        case Form.JSON:
            print_data([_plain(item) for item in findings], OutputFormat.JSON)
        case Form.SARIF:
            print_data(_sarif(findings), OutputFormat.JSON)
        case Form.GITHUB:
            sys.stdout.write("".join(_annotation(item) for item in findings))


def _print_lines(findings: Sequence[Located]) -> None:
    """As compilers print: editors jump to such lines."""
    printer = Printer(sys.stdout)
    styles = {"error": "bold red", "warning": "yellow"}
    for item in findings:
        found = item.finding
        where = f"{item.file}:{item.line}" if item.line else item.file
        what = "".join(f": {part}" for part in (item.title, path_text(found.path)) if part)
        printer.line((f"{where}: ", "bold"), (f"{found.level} {found.code}", styles[found.level]), what)
        printer.line(f"    {found.message}")
        printer.line((f"    fix: {found.fix}", "green"))
    printer.flush()


def _plain(item: Located) -> dict[str, Any]:
    found = item.finding
    return {
        "file": item.file,
        "line": item.line,
        "object": item.title,
        "path": path_text(found.path),
        "code": found.code,
        "level": found.level,
        "message": found.message,
        "fix": found.fix,
        "fixable": bool(found.edits),
    }


def _annotation(item: Located) -> str:
    found = item.finding
    properties = {"file": item.file, "line": str(item.line) if item.line else "", "title": found.code}
    listed = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items() if value)
    text = f"{item.title}: {path_text(found.path)}: {found.message}\nfix: {found.fix}"
    return f"::{found.level} {listed}::{_escaped(text)}\n"


def _escaped(text: str, more: str = "") -> str:
    """As GitHub's workflow commands want it."""
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def _sarif(findings: Sequence[Located]) -> dict[str, Any]:
    """SARIF 2.1.0, with the rules that found something."""
    codes = sorted({item.finding.code for item in findings})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": RULES[code].what},
            "fullDescription": {"text": f"{RULES[code].what} At run time: {RULES[code].outcome}."},
            "help": {"text": RULES[code].repair},
            "defaultConfiguration": {"level": RULES[code].level},
        }
        for code in codes
    ]
    driver = {"name": "kubectl-dra lint", "version": dra_operator.__version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(item, codes) for item in findings]}],
    }


def _result(item: Located, codes: list[str]) -> dict[str, Any]:
    found = item.finding
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(item.file, safe="/:")},
            "region": {"startLine": max(item.line, 1)},
        }
    }
    if item.title:
        name = ": ".join(part for part in (item.title, path_text(found.path)) if part)
        location["logicalLocations"] = [{"fullyQualifiedName": name}]
    return {
        "ruleId": found.code,
        "ruleIndex": codes.index(found.code),
        "level": found.level,
        "message": {"text": f"{found.message}. Fix: {found.fix}"},
        "locations": [location],
    }
