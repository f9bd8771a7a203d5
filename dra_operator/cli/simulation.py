"""One simulated run: manifests in, the engine on the embedded cluster, the timeline and the end state out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_operator.cli import endstate
from dra_operator.cli.manifests import SCENARIO, Manifest, Manifests, Source, read_manifests
from dra_operator.cli.output import OutputFormat, Printer, check_writable, error, note, print_data
from dra_operator.cli.progress import Progress
from dra_operator.cli.scenario import read_scenario
from dra_operator.cli.standing import latest_time, standing_phases
from dra_operator.cli.standins import stand_in_nodes
from dra_operator.cli.telling import tell
from dra_operator.cli.timeline import Happening, Timeline, events, title
from dra_operator.cli.whatif import WhatIf, change
from dra_operator.cluster.memory.assembly import embedded_cluster
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.memory.runner import Runner
from dra_operator.cluster.memory.scenario import Player, Step
from dra_operator.cluster.memory.world import EPOCH, STEP, World
from dra_operator.engine.engine import Engine
from dra_operator.engine.settings import EngineSettings

#: Widths in a line of the timeline.
_TIME, _REASON, _OBJECT = 9, 13, 50


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster whose objects a run starts from."""

    kubeconfig: Path | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """What a run is made of: manifests, on top of a cluster's objects where one is named, changed by what-ifs."""

    paths: Sequence[str] = ()
    cluster: Cluster | None = None
    what_if: WhatIf = field(default_factory=WhatIf)


def simulate_files(
    given: Input, until: float | None, output: OutputFormat, seed: int, html: Path | None = None
) -> bool:
    """Read, run and print; False if something in the input could not be used. `until` in seconds, None: see the Scenario.

    `html`: where the page with the whole run goes. Where nothing came of an input that could not be used, nothing is printed.
    Raises CommandFailed where nothing of it could.
    """
    if html is not None:
        check_writable(html)
    printer = Printer(sys.stdout)
    manifests, removal, now = read_input(given)
    run = _Run(manifests, until, printer if output is OutputFormat.TABLE else None, seed, removal=removal, start=now)
    if html is not None:
        from dra_operator.cli.recording import Recorder

        recorder = Recorder(run.world, run.timeline)
    run.play()
    found = result(run)
    if html is not None:
        from dra_operator.cli.page import write_page

        write_page(html, recorder.record(found))
    if run.bad and not any(found.values()):
        return False
    if output is OutputFormat.TABLE:
        _print_end(printer, run, found["claims"], found["pods"])
    else:
        print_data(found, output)
    return not run.bad


def play_files(paths: Sequence[str], until: float | None = None, seed: int = 0) -> _Run:
    """Read and run, and print nothing but notes and errors."""
    return play(read_manifests(paths), until, seed)


def play(manifests: Manifests, until: float | None = None, seed: int = 0) -> _Run:
    """As `play_files`, of what was read before."""
    run = _Run(manifests, until, None, seed)
    run.play()
    return run


def read_input(given: Input) -> tuple[Manifests, Any, float | None]:
    """The objects, what is to be removed before the start, and when that is (None: as the objects say)."""
    manifests = read_manifests(given.paths)
    now = None
    if given.cluster is not None:
        import time

        from dra_operator.cli.live import SNAPSHOT_KINDS, read_cluster

        listed = read_cluster(given.cluster.kubeconfig, given.cluster.context, SNAPSHOT_KINDS)
        source = Source("(cluster)")
        there = [Manifest(source, resource, item) for resource, items in listed for item in items]
        manifests.objects[:0] = there
        now = time.time()
    return manifests, change(manifests, given.what_if), now


def result(run: _Run) -> dict[str, Any]:
    """The run as data."""
    claims, pods = endstate.claims(run.store, run.engine), endstate.pods(run.store)
    return {"claims": claims, "pods": pods, "events": events(run.timeline.happenings)}


class _Run:
    """One simulation from its input to its end. `printer` gets the timeline as it unfolds.

    `removal` is carried out once everything is loaded. `start`: seconds since the epoch; by default the latest time that objects of
    a running cluster tell of.
    """

    def __init__(
        self,
        manifests: Manifests,
        until: float | None,
        printer: Printer | None,
        seed: int,
        *,
        removal: Step | None = None,
        start: float | None = None,
    ) -> None:
        self.bad = 0
        self.ended = "In the end"
        self._scenario, self._later = read_scenario(manifests, until)
        latest = latest_time(manifest.object for manifest in manifests.objects)
        begin = max((time for time in (latest, start) if time is not None), default=EPOCH)
        self.world: World = embedded_cluster(seed=seed, start=begin)
        self.store = self.world.server.store
        self.engine = Engine(EngineSettings())
        self._manifests = manifests
        self._printer = printer
        self._removal = removal
        self._start = self.world.now
        self._player = Player(self.world)
        self._sources: dict[str, Source] = {}
        self.timeline = Timeline(self.world, self.engine, self._show)
        self.world.after_step.append(self._hear_troubles)
        self._progress = Progress()
        if printer is None or not printer.stream.isatty():
            self.world.after_step.append(self._show_progress)

    def play(self) -> None:
        tell(self._manifests, complain=self._complain)
        objects = [manifest for manifest in self._manifests.objects if manifest.resource is not SCENARIO]
        made, remarks = stand_in_nodes([*objects, *self._later])
        for remark in remarks:
            note(remark)
        self._sources = {_called(manifest): manifest.source for manifest in [*objects, *self._later]}
        self._load([*made, *objects])
        if self._removal is not None:
            # Before the engine looks: it must not place anything there first.
            self._take(self._removal)
            self._hear_troubles()
        for name, phase in standing_phases(self.store, {item.object["metadata"].get("uid") for item in objects}):
            self.timeline.know(name, phase)
        for step in self._scenario.steps:
            self.world.at(self._start + step.at, lambda step=step: self._take(step), rank=STEP)  # type: ignore[misc]
        Runner(self.world, lambda: self.engine).start()
        with self._progress:
            self._go_on()

    def _go_on(self) -> None:
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

    def _show_progress(self) -> None:
        if self._progress.due:
            minutes = (self.world.now - self._start) / 60
            self._progress.show(f"{minutes:.1f} min simulated, {len(self.timeline.happenings)} events")

    def _complain(self, message: str) -> None:
        self.bad += 1
        self._progress.clear()
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
