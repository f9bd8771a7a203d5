"""Manifests as a command line gives them: `-f FILE`, `-f DIR`, `-f -`, Lists opened, each object with its origin.

What cannot be used becomes a `Problem` that says where and how to repair it; the rest is read on. Not a validator of
everything the API server checks: it looks at what every command needs (kind, version, name, readable fields).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from dra_operator.api.errors import InvalidObject, described
from dra_operator.cli import inputs
from dra_operator.cli.acceptance import Rejected, accept
from dra_operator.cli.documents import BadDocument, read_documents
from dra_operator.cli.inputs import FILL_IT, Unreadable, name_of
from dra_operator.cluster.rest import BY_KIND, OPERATOR_GROUP, Resource

#: Not a kind of the API server: a timeline among the manifests, read by `simulate`.
SCENARIO = Resource(OPERATOR_GROUP, "v1alpha1", "scenarios", "Scenario", namespaced=False)
KINDS: Mapping[str, Resource] = {**BY_KIND, SCENARIO.kind: SCENARIO}

#: Said of a file without an object.
NOTHING = "holds no objects"
#: Said of what holds objects that no command looks at.
IRRELEVANT = "holds nothing that has to do with devices"

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")

#: Kinds that stand next to workloads in ordinary manifests and have no bearing on devices: left out without a word.
IRRELEVANT_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "autoscaling",
        "kustomize.config.k8s.io",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "monitoring.coreos.com",
    }
)
IRRELEVANT_CORE_KINDS = frozenset(
    {
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    }
)
#: Groups in which a kind that is not known is a mistake and not somebody else's kind.
OWN_GROUPS = frozenset({"resource.k8s.io", OPERATOR_GROUP})
FORMER_GROUPS = frozenset({"extensions"})


@dataclass(frozen=True, slots=True)
class Source:
    """Where an object or a problem comes from. `line` counts from 1; 0 stands for the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, as written but for its namespace: filled in (`default`), or taken off cluster-scoped kinds."""

    source: Source
    resource: Resource
    object: dict[str, Any]

    @property
    def name(self) -> str:
        metadata = self.object["metadata"]
        return str(metadata.get("name") or metadata.get("generateName"))

    @property
    def title(self) -> str:
        namespace = self.object["metadata"].get("namespace")
        return f"{self.resource.kind} {namespace}/{self.name}" if namespace else f"{self.resource.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """`repair`: what to do about it, where the message does not say so."""

    source: Source
    message: str
    repair: str = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" + (f"; {self.repair}" if self.repair else "")


@dataclass(slots=True)
class Manifests:
    """What was read, in the order written. `notes` say what was left out and is no mistake."""

    objects: list[Manifest] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Manifest]:
        return [manifest for manifest in self.objects if manifest.resource.kind == kind]


def read_manifests(paths: Sequence[str]) -> Manifests:
    """The objects of files and directories (not their sub-directories) and of standard input (`-`). Raises nothing."""
    found = Manifests()
    seen: dict[tuple[str, str, str], Manifest] = {}
    for path in paths:
        for file in list_files(path, found):
            for manifest in _read_file(file, found):
                _keep(manifest, seen, found)
    if not found.objects and not found.problems:
        # Beside others an empty file is no mistake.
        found.problems = [replace(note, repair=FILL_IT) for note in found.notes if note.message == NOTHING] or [
            Problem(Source(name_of(path)), IRRELEVANT, "name files with workloads, claims, nodes or slices")
            for path in dict.fromkeys(paths)
        ]
        found.notes = [note for note in found.notes if note.message != NOTHING]
    return found


def read_values(value: Any, source: Source, found: Manifests) -> Iterator[Manifest]:
    """The objects that `value` (an object, or a List of them) stands for; problems and notes go to `found`."""
    for item, where in _open_lists(value, source, {}):
        manifest = _manifest(item, where, found)
        if manifest:
            yield manifest


def read_more(path: str, found: Manifests) -> list[Manifest]:
    """The objects of one more path, kept apart from those in `found`; its problems and notes go there."""
    return [manifest for file in list_files(path, found) for manifest in _read_file(file, found)]


def _keep(manifest: Manifest, seen: dict[tuple[str, str, str], Manifest], found: Manifests) -> None:
    metadata = manifest.object["metadata"]
    if metadata.get("name"):
        key = (manifest.resource.kind, metadata.get("namespace", ""), metadata["name"])
        first = seen.setdefault(key, manifest)
        if first is not manifest:
            if first.object != manifest.object:
                message = f"{manifest.title} was given before, differently, in {first.source}; keep one of them"
                found.problems.append(Problem(manifest.source, message))
            return
    found.objects.append(manifest)


def list_files(path: str, found: Manifests) -> list[str]:
    """The manifests of a directory, or `path` itself where it is none; problems go to `found`."""
    if path == "-" or not os.path.isdir(path):
        return [path]
    try:
        names = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(SUFFIXES) and not entry.is_dir())
    except OSError as error:
        found.problems.append(Problem(Source(path), f"cannot be read: {error.strerror}", "name one that can be read"))
        return []
    if not names:
        kinds = f"no {', '.join(SUFFIXES)} file in this directory"
        found.problems.append(
            Problem(Source(path), kinds, "name one that has some; those inside it are not looked into")
        )
    return [os.path.join(path, name) for name in names]


def read_text(path: str, found: Manifests) -> tuple[str, str] | None:
    """(name, content) of a file, or of standard input for `-`; None with a problem in `found` where it cannot be read."""
    try:
        return name_of(path), inputs.read_text(path)
    except Unreadable as error:
        found.problems.append(Problem(Source(error.name, error.line), error.reason, error.repair))
    return None


def _read_file(path: str, found: Manifests) -> Iterator[Manifest]:
    read = read_text(path, found)
    if read is None:
        return
    name, text = read
    empty = True
    for document in read_documents(text, json_only=path.endswith((".json", ".jsonl"))):
        source = Source(name, document.line)
        if isinstance(document, BadDocument):
            found.problems.append(Problem(source, document.message))
            empty = False
            continue
        for item, where in _open_lists(document.value, source, document.lines):
            empty = False
            manifest = _manifest(item, where, found)
            if manifest:
                yield manifest
    if empty:
        found.notes.append(Problem(Source(name), NOTHING))


def _open_lists(value: Any, source: Source, lines: Mapping[int, int]) -> Iterator[tuple[Any, Source]]:
    """A List's items, each with its own line where that is known; a bare sequence counts as a List."""
    if isinstance(value, dict) and str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        items = value["items"]
        # The lists of one kind that the API serves leave kind and apiVersion out of their items.
        kind, version = value["kind"].removesuffix("List"), value.get("apiVersion")
        for item in items:
            where = Source(source.file, lines.get(id(item), 0) or source.line)
            if kind and isinstance(item, dict) and "kind" not in item:
                item = {"apiVersion": version, "kind": kind, **item}
            yield from _open_lists(item, where, {})
    elif isinstance(value, list):
        for item in value:
            yield from _open_lists(item, Source(source.file, lines.get(id(item), 0) or source.line), {})
    else:
        yield value, source


def _manifest(value: Any, source: Source, found: Manifests) -> Manifest | None:
    """`value` as a manifest, or None with a problem or note in `found`."""
    try:
        manifest = _identified(value, source, found)
        if manifest is not None and manifest.resource is not SCENARIO:
            remarks = _accepted(manifest)
            found.notes += [Problem(source, f"{manifest.title}: {remark}") for remark in remarks]
        return manifest
    except (_Unusable, InvalidObject) as error:
        found.problems.append(Problem(source, str(error)))
    return None


def _accepted(manifest: Manifest) -> list[str]:
    try:
        return accept(manifest.resource, manifest.object)
    except Rejected as error:
        raise _Unusable(f"{manifest.title}: {error}") from None


class _Unusable(ValueError):
    pass


def _identified(value: Any, source: Source, found: Manifests) -> Manifest | None:
    if not isinstance(value, dict):
        raise _Unusable(f"expected an object with apiVersion and kind, found {described(value)}")
    kind, version, metadata = value.get("kind"), value.get("apiVersion"), value.get("metadata")
    if not isinstance(kind, str) or not kind:
        raise _Unusable("an object without `kind`; add apiVersion and kind")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    title = f"{kind} {name}" if isinstance(name, str) and name else f"{kind} (no name)"
    if not isinstance(version, str) or not version:
        wanted = f": {KINDS[kind].api_version}" if kind in KINDS else ""
        raise _Unusable(f"{title}: `apiVersion` is missing{wanted}")
    resource = _resource(kind, version, title, source, found)
    if resource is None:
        return None
    metadata = _metadata(metadata, resource, title)
    return Manifest(source, resource, {**value, "metadata": metadata})


def _resource(kind: str, version: str, title: str, source: Source, found: Manifests) -> Resource | None:
    """The kind meant; None where it is not one of ours, which is noted unless such kinds are common."""
    group = version.rpartition("/")[0]
    resource = KINDS.get(kind)
    if resource is not None and version == resource.api_version:
        return resource
    if resource is not None and (group == resource.group or group in FORMER_GROUPS):
        raise _Unusable(f"{title}: apiVersion {version} is not read here; write it as {resource.api_version}")
    if resource is not None and group in OWN_GROUPS:
        raise _Unusable(f"{title}: {kind} is not a kind of {group}; its apiVersion is {resource.api_version}")
    if group in OWN_GROUPS:
        known = [name for name, item in KINDS.items() if item.group == group]
        near = get_close_matches(kind, known, 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        raise _Unusable(f"{title}: {group} has no kind {kind}; {meant}")
    if group not in IRRELEVANT_GROUPS and not (group == "" and kind in IRRELEVANT_CORE_KINDS):
        found.notes.append(Problem(source, f"{title} ({version}) has no bearing on devices, left out"))
    return None


def _metadata(metadata: Any, resource: Resource, title: str) -> dict[str, Any]:
    """A checked copy, with its namespace settled. Scenarios need no name."""
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise _Unusable(f"{title}: metadata is {described(metadata)}, not a mapping")
    copy = dict(metadata)
    for key in ("name", "generateName", "namespace"):
        if copy.get(key) is not None and not isinstance(copy[key], str):
            raise _Unusable(f"{title}: metadata.{key} is {described(copy[key])}; put it in quotes")
    if not copy.get("name") and not copy.get("generateName"):
        if resource is not SCENARIO:
            raise _Unusable(f"{title}: metadata.name is missing; give it a name")
        copy["name"] = "scenario"
    for key in ("labels", "annotations"):
        texts = copy.get(key) or {}
        if not isinstance(texts, dict):
            raise _Unusable(f"{title}: metadata.{key} is {described(texts)}, not a mapping")
        for name, text in texts.items():
            if not isinstance(text, str):
                raise _Unusable(f"{title}: metadata.{key}[{name}] is {described(text)}; put it in quotes")
    if isinstance(copy.get("ownerReferences"), list):
        # Captured objects have the UIDs of their owners left out; nobody could tell who those were.
        copy["ownerReferences"] = [
            owner for owner in copy["ownerReferences"] if not isinstance(owner, dict) or owner.get("uid")
        ]
    if resource.namespaced:
        copy["namespace"] = copy.get("namespace") or "default"
    else:
        copy.pop("namespace", None)
    return copy
