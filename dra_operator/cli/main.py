"""Entry point of `dra-operator` and `kubectl-dra`: imports the one command called, turns failures into one line.

Both programs know all commands; they differ in which come first in the help. No command's work is done here.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.exceptions import TyperException

import dra_operator
from dra_operator.cli.failures import FAILED, USAGE, CommandFailed
from dra_operator.cli.output import error

#: What a shell reports for a program ended by SIGINT or SIGPIPE.
INTERRUPTED = 130
PIPE_CLOSED = 141
#: Set to anything, it shows the traceback of an unexpected failure.
DEBUG_VARIABLE = "DRA_OPERATOR_DEBUG"
#: Net allocations before a collection of the youngest objects, and how many of those make one of the older ones.
#: Python's own 700 walk the heap again and again while modules are imported and lists of a large cluster are read, a fifth of what
#: a short command takes and a third of the operator's start; what we keep is freed by its reference count.
GARBAGE_COLLECTION = (50_000, 20, 100)


@dataclass(frozen=True, slots=True)
class Command:
    """`module` has a function of the command's name; it is imported when the command is called."""

    name: str
    module: str
    summary: str


COMMANDS: tuple[Command, ...] = (
    Command(
        "simulate",
        "dra_operator.cli.simulate",
        "Run the engine on manifests and show what it decides.",
    ),
    Command("explain", "dra_operator.cli.explain", "Say why a claim or pod waits, and what would fix it."),
    Command("solve", "dra_operator.cli.solve", "Answer allocation problems given as JSON."),
    Command("cel", "dra_operator.cli.cel", "Evaluate device selectors as the allocator would."),
    Command("lint", "dra_operator.cli.lint", "Say what in manifests will not work, and why."),
    Command("convert", "dra_operator.cli.convert", "Turn manifests of older dialects into resource.k8s.io/v1."),
    Command("defrag", "dra_operator.cli.defrag", "Find the fewest moves that make a waiting claim fit."),
    Command("migrate", "dra_operator.cli.migrate", "Move from device plugins to DRA: plan, generate, verify."),
    Command("portable", "dra_operator.cli.portable", "Say in which of several clusters manifests would run."),
    Command("top", "dra_operator.cli.top", "Show how devices are used now, and who waits for them."),
    Command(
        "snapshot", "dra_operator.cli.snapshot", "Save a cluster's objects in one file that the other commands read."
    ),
    Command("run", "dra_operator.cli.run", "Run the operator against a cluster."),
)

HELP = """Allocate devices to ResourceClaims, and see why, what and where.

Data goes to stdout, notes to stderr. Exit code 0: done; 1: something in the input was wrong; 2: wrong usage.
"""


def build(program: str, chosen: str | None = None) -> typer.Typer:
    """The application as `program` shows it. Only the command `chosen` is real, the others are names in the help."""
    app = typer.Typer(
        name=program,
        help=HELP,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    ours_first = program == "dra-operator"
    for command in sorted(COMMANDS, key=lambda item: (item.name == "run") != ours_first):
        function = _load(command) if command.name == chosen else _placeholder
        app.command(command.name, short_help=command.summary)(function)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        print(dra_operator.__version__)
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the program itself."""


def _placeholder() -> None:
    raise AssertionError("a command that was not imported was called")


def _load(command: Command) -> Any:
    return getattr(import_module(command.module), command.name)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run one command line (None: the process's own) and exit. Never shows a traceback unless asked by `DRA_OPERATOR_DEBUG`."""
    if arguments is None:
        gc.set_threshold(*GARBAGE_COLLECTION)
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    program = Path(sys.argv[0]).name
    program = "dra-operator" if program.startswith("dra-operator") else "kubectl-dra"
    code = _exit_code(program, arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or PIPE_CLOSED
        # The interpreter flushes once more at exit; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _exit_code(program: str, arguments: Sequence[str]) -> int:
    empty = not arguments and _completion(program) not in os.environ
    try:
        # Without a command there is the help, and yet nothing was done.
        with redirect_stdout(sys.stderr) if empty else nullcontext():
            _run(program, ["--help"] if empty else arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except typer.Exit as stop:
        return USAGE if empty else stop.exit_code
    except TyperException as wrong:
        error(_told(wrong, program, arguments))
        return USAGE
    except CommandFailed as failure:
        if failure.message:
            error(failure.message)
        return failure.code
    except BrokenPipeError:
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as failure:
        error(f"{failure.filename}: {failure.strerror}" if failure.filename else str(failure))
        return FAILED
    except Exception as failure:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        error(f"{type(failure).__name__}: {failure} (a defect; {DEBUG_VARIABLE}=1 shows where)")
        return FAILED
    return 0


def _run(program: str, arguments: Sequence[str]) -> None:
    """Not by calling the application: it would word mistakes by itself, and take a closed pipe for a failure."""
    app = build(program, _chosen(program, arguments))
    if _completion(program) in os.environ:
        app(prog_name=program)
    command = typer.main.get_command(app)
    with command.make_context(program, list(arguments)) as context:
        command.invoke(context)


def _told(wrong: TyperException, program: str, arguments: Sequence[str]) -> str:
    """Wrong usage in one line, with the help that has the right one."""
    text = " ".join(wrong.format_message().split()).replace("Value error, ", "").removesuffix(".")
    command = " ".join(filter(None, (program, _chosen(program, arguments))))
    return f"{text} (see {command} --help)"


def _completion(program: str) -> str:
    """The variable by which a shell asks for completion."""
    return f"_{program}_COMPLETE".replace("-", "_").upper()


def _chosen(program: str, arguments: Sequence[str]) -> str | None:
    """The command of this command line, also of one that the shell asks to complete."""
    if _completion(program) in os.environ:
        arguments = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    known = {command.name for command in COMMANDS}
    return next((argument for argument in arguments if argument in known), None)
