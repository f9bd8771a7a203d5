"""One simulated run: manifests in, the engine on the embedded cluster, the timeline and the end state out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from dra_operator.cli import endstate
from dra_operator.cli.manifests import SCENARIO, Manifest, Manifests, Source, read_manifests
from dra_operator.cli.output import OutputFormat, Printer, error, note, print_data
from dra_operator.cli.scenario import read_scenario
from dra_operator.cli.standins import stand_in_nodes
from dra_operator.cli.timeline import Happening, Timeline, events, title
from dra_operator.cluster.memory.assembly import embedded_cluster
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.runner import Runner
from dra_operator.cluster.memory.scenario import Player, Step
from dra_operator.cluster.memory.world import STEP, World
from dra_operator.engine.engine import Engine
from dra_operator.engine.settings import EngineSettings

#: Widths in a line of the timeline.
_TIME, _REASON, _OBJECT = 9, 13, 50


def simulate_files(paths: Sequence[str], until: float | None, output: OutputFormat, seed: int) -> bool:
    """Read, run and print; False if something in the input could not be used. `until` in seconds, None: see the Scenario."""
    printer = Printer(sys.stdout)
    run = _Run(read_manifests(paths), until, printer if output is OutputFormat.TABLE else None, seed)
    run.play()
    claims, pods = endstate.claims(run.store, run.engine), endstate.pods(run.store)
    if output is OutputFormat.TABLE:
        _print_end(printer, run, claims, pods)
    else:
        print_data({"claims": claims, "pods": pods, "events": events(run.timeline.happenings)}, output)
    return not run.bad


def play_files(paths: Sequence[str], until: float | None = None, seed: int = 0) -> _Run:
    """Read and run, and print nothing but notes and errors."""
    run = _Run(read_manifests(paths), until, None, seed)
    run.play()
    return run


class _Run:
    """One simulation from its input to its end. `printer` gets the timeline as it unfolds."""

    def __init__(self, manifests: Manifests, until: float | None, printer: Printer | None, seed: int) -> None:
        self.bad = 0
        self.ended = "In the end"
        self._scenario, self._later = read_scenario(manifests, until)
        self.world: World = embedded_cluster(seed=seed)
        self.store = self.world.server.store
        self.engine = Engine(EngineSettings())
        self._manifests = manifests
        self._printer = printer
        self._start = self.world.now
        self._player = Player(self.world)
        self._sources: dict[str, Source] = {}
        self.timeline = Timeline(self.world, self.engine, self._show)
        self.world.after_step.append(self._hear_troubles)

    def play(self) -> None:
        for problem in self._manifests.problems:
            self._complain(str(problem))
        for left_out in self._manifests.notes:
            note(str(left_out))
        objects = [manifest for manifest in self._manifests.objects if manifest.resource is not SCENARIO]
        made, remarks = stand_in_nodes([*objects, *self._later])
        for remark in remarks:
            note(remark)
        self._sources = {_called(manifest): manifest.source for manifest in [*objects, *self._later]}
        self._load([*made, *objects])
        for step in self._scenario.steps:
            self.world.at(self._start + step.at, lambda step=step: self._take(step), rank=STEP)  # type: ignore[misc]
        Runner(self.world, lambda: self.engine).start()
        if self._scenario.until is not None:
            self.world.run_until(self._start + self._scenario.until)
            self.ended = f"After {self._scenario.until:g} s"
        elif not self.world.run_until_idle():
            note("things still change after 30 days of virtual time; stopped there (--until sets another time)")

    def _load(self, manifests: Iterable[Manifest]) -> None:
        """What is there at the start. An object with a uid comes from a running cluster and stays as it is."""
        fresh = []
        for manifest in manifests:
            if not manifest.object["metadata"].get("uid"):
                fresh.append(manifest.object)
                continue
            try:
                self.world.server.load([manifest.object], exempt=True)
            except Refused as refusal:
                self._complain(f"{manifest.source}: {manifest.title}: {refusal.message}")
        self._player.apply(fresh)
        self._hear_troubles()

    def _take(self, step: Step) -> None:
        if self._printer is not None:
            self._printer.line((f"{_clock(step.at)}  {_described(step)}", "bold"))
        self._player.play(step)

    def _hear_troubles(self) -> None:
        for trouble in self._player.troubles:
            source = self._sources.get(trouble.object)
            where = f"{source}: " if source else f"at {_clock(trouble.at - self._start).strip()}: "
            self._complain(f"{where}{trouble.object}: {trouble.message}")
        self._player.troubles.clear()

    def _complain(self, message: str) -> None:
        self.bad += 1
        error(message)

    def _show(self, happening: Happening) -> None:
        if self._printer is None:
            return
        style = endstate.style(happening.reason) or ("red" if happening.trouble else "")
        self._printer.line(
            (f"{_clock(happening.at)}  ", "dim"),
            (f"{happening.reason:<{_REASON}}  ", style),
            f"{happening.object:<{_OBJECT}}  {happening.message}",
        )


def _clock(seconds: float) -> str:
    return f"{seconds:{_TIME}.2f}s"


def _called(manifest: Manifest) -> str:
    """As the player calls it in its troubles."""
    namespace = manifest.object["metadata"].get("namespace")
    return "/".join(filter(None, (manifest.resource.kind.lower(), namespace, manifest.name)))


def _described(step: Step) -> str:
    """A step in one line: `apply pod/team/a, deployment/team/b; delete pod/team/c`."""
    metas = [(item["kind"], item["metadata"]) for item in step.apply]
    parts = (
        ("apply", [title(kind, meta.get("namespace"), meta.get("name") or "") for kind, meta in metas]),
        ("delete", [str(target) for target in step.delete]),
        ("finish", [str(target) for target in step.finish]),
    )
    return "; ".join(f"{verb} {_shortened(names)}" for verb, names in parts if names) or "(nothing)"


def _shortened(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def _print_end(printer: Printer, run: _Run, claims: list[dict[str, object]], pods: list[dict[str, object]]) -> None:
    if run.timeline.happenings:
        printer.line("")
    printer.line((f"{run.ended}:", "bold"))
    if claims:
        endstate.print_claims(printer, claims)
    if pods:
        printer.line("")
        endstate.print_pods(printer, pods)
    if not claims and not pods:
        printer.line("no claims, no pods")
    printer.flush()
