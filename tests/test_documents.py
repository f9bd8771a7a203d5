"""What the documents say must be there: pages, headings, files, packages, targets, and the options of every command line.

Nothing is run here: `tests/examples` plays what the examples promise.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.main

from dra_operator.cli.main import COMMANDS, build
from dra_operator.operator.metrics import Metrics

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/README.md")])
PROGRAMS = ("kubectl-dra", "dra-operator")
#: Marks of a synopsis, whose options are looked at one by one.
SYNOPSIS = re.compile(r"\[-|[a-zA-Z]\|[a-zA-Z-]")
#: Folders whose files documents name from the root of the repository.
FOLDERS = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))

Line = tuple[str, str]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code(text: str) -> Iterator[str]:
    """Each piece of code: spans, and lines of blocks with those that they go on in."""
    joined = re.sub(r"\\\n\s*", " ", text)
    fenced = False
    for line in joined.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line.strip().removeprefix("$ ")
        else:
            yield from re.findall(r"`([^`]+)`", line)


PIECES: list[Line] = [(name(path), piece) for path in DOCUMENTS for piece in code(path.read_text())]


def words_of(piece: str) -> list[list[str]]:
    """The command lines in a piece of code, without comments, redirections and what else the shell takes for itself."""
    lexer = shlex.shlex(piece, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    words = iter(lexer)
    for word in words:
        if word in ("|", "||", "&&", ";", "&"):
            found.append([])
        elif word in (">", ">>", "<"):
            next(words, None)
        else:
            found[-1].append(word)
    return found


def command_lines() -> Iterator[Line]:
    for document, piece in PIECES:
        if re.match(rf"(?:{'|'.join(PROGRAMS)}) (?:-|[a-z])", piece):
            yield document, piece


@cache
def command(program: str, chosen: str) -> typer.main.TyperCommand:
    group = typer.main.get_command(build(program, chosen))
    return group.commands[chosen]  # type: ignore[attr-defined,no-any-return]


def options(program: str, chosen: str) -> set[str]:
    return {option for each in command(program, chosen).params for option in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize(("document", "line"), sorted(set(command_lines())))
def test_a_command_line_has_the_options_it_names(document: str, line: str) -> None:
    if SYNOPSIS.search(line.partition("#")[0]):
        program, chosen, *rest = line.split()
        named = {each.strip("[]").split("|")[0] for each in rest if each.strip("[]").startswith("-")} - {"-"}
        assert named <= options(program, chosen)
        return
    for words in words_of(line):
        if not words or words[0] not in PROGRAMS or len(words) == 1:
            continue
        program, chosen, *rest = words
        if chosen.startswith("--"):
            assert chosen in ("--help", "--version", "--install-completion", "--show-completion")
        elif rest:
            command(program, chosen).make_context(chosen, rest)  # raises where they cannot be parsed
        else:  # a command mentioned, or one that needs no arguments
            assert chosen in {each.name for each in COMMANDS}


def test_there_are_command_lines_of_every_command() -> None:
    shown = {line.split()[1] for _, line in command_lines()}
    assert {each.name for each in COMMANDS} - shown == set()


def headings(path: Path) -> set[str]:
    """Anchors as they are made of headings: lower case, blanks as dashes, no punctuation."""
    found = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in found}


def test_links_to_headings_lead_somewhere() -> None:
    broken = [
        f"{name(path)}: {target}#{anchor}"
        for path in DOCUMENTS
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", path.read_text())
        if anchor not in headings(path.parent / target if target else path)
    ]
    assert broken == []


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text()))
    assert {name(path) for path in ROOT.glob("docs/*.md")} - linked == set()


def test_files_that_are_named_exist() -> None:
    missing = []
    for document, piece in PIECES:
        for word in re.findall(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*{{}},-]*[\w*]", piece):
            if not re.search(r"[A-Z]{2}|…|\{", word) and not any(ROOT.glob(word)):
                missing.append(f"{document}: {word}")
    assert missing == []


def test_modules_that_are_called_exist() -> None:
    missing = [
        f"{document}: {module}"
        for document, piece in PIECES
        for module in re.findall(r"python -m ((?:bench|devcluster|examples)[\w.]*)", piece)
        if not any((ROOT / (module.replace(".", "/") + end)).exists() for end in (".py", "/__main__.py"))
    ]
    assert missing == []


def test_measurements_have_the_options_that_are_named() -> None:
    missing = []
    for document, piece in PIECES:
        if called := re.match(r"python -m bench\.(\w+)", piece):
            source = (ROOT / "bench" / called[1] / "__main__.py").read_text()
            known = set(re.findall(r'add_argument\(\s*((?:"-[\w-]+",?\s*)+)', source))
            flags = {flag for group in known for flag in re.findall(r'"(-[\w-]+)"', group)}
            missing += [
                f"{document}: {flag}"
                for flag in re.findall(r"(?<![\w-])--?[a-z][\w-]*", piece[called.end() :])
                if flag not in flags
            ]
    assert missing == []


def test_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {(document, target) for document, piece in PIECES for target in re.findall(r"^make ([a-z-]+)", piece)}
    assert named
    assert {each for each in named if each[1] not in targets} == set()


def test_metrics_that_are_named_exist() -> None:
    exposed = {line.split()[2] for line in Metrics().render().decode().splitlines() if line.startswith("# TYPE")}
    named = {
        (document, re.sub("_(bucket|count|sum)$", "", metric))
        for document, piece in PIECES
        for metric in re.findall(r"dra_operator_[a-z_]+", piece)
    }
    assert named
    assert {each for each in named if each[1] not in exposed} == set()


def test_the_map_has_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    packages = {name(path.parent) for path in (ROOT / "dra_operator").glob("*/__init__.py")}
    assert {each for each in packages if f"`{each}/`" not in text} == set()


def test_the_changelog_names_every_command() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    told = {each for span in re.findall(r"`([^`]+)`", text) for each in span.split()}
    assert {each.name for each in COMMANDS if each.name != "run"} - told == set()
