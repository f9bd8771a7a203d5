"""What `explain` prints, for each cause alone and for some together, and that its fixes are true in the embedded cluster.

After a wanted change of wording: `UPDATE_EXPECTED=1 pytest tests/cli/test_explained.py`, then read the diff.
"""

from __future__ import annotations

import io
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from dra_operator.api.meta import Key
from dra_operator.cli import explained
from dra_operator.cli.output import OutputFormat
from dra_operator.explain.account import Account
from tests.engine.stage import Object, Stage
from tests.explain import gangcases
from tests.explain.cases import CASES

GOLDEN = Path(__file__).parent / "explained"
assert gangcases  # its cases are among CASES


def account_of(stage: Stage, target: str) -> Account:
    kind, name = target.split("/")
    found = stage.engines[-1].explain(kind, Key("default", name), stage.world.now)  # type: ignore[arg-type]
    assert found is not None
    return found


def printed(account: Account, form: OutputFormat, monkeypatch: pytest.MonkeyPatch) -> str:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    explained.print_account(account, form)
    return stream.getvalue()


@pytest.mark.parametrize("name", CASES)
def test_what_is_printed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    account = account_of(*CASES[name]())
    for form, ending in ((OutputFormat.TABLE, "txt"), (OutputFormat.JSON, "json")):
        text = printed(account, form, monkeypatch)
        expected = GOLDEN / f"{name}.{ending}"
        if os.environ.get("UPDATE_EXPECTED"):
            expected.write_text(text)
        assert text == expected.read_text()
    told = orjson.loads(text)
    assert list(told)[:3] == ["object", "phase", "summary"]
    assert told["summary"]
    assert isinstance(told["requests"], list)
    assert all(fix["verified"] is True and fix["text"] for fix in told["fixes"])


#: Nothing that a person can do to the claim, the pod or the cluster's objects helps, or nothing is wrong.
WITHOUT_FIXES = {
    "class-broken", "pool-incomplete", "gpu-here-nic-there", "running", "running-pod", "gated-by-another",
    "claim-not-there", "no-pod-uses-it-any-more", "behind-in-a-strict-queue", "quota-used-up-and-others-before",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_fix_helps(name: str) -> None:
    """Each fix is made in a cluster of its own, and the pod gets its devices."""
    stage, target = CASES[name]()
    fixes = account_of(stage, target).explanation
    count = 0 if fixes is None else len(fixes.fixes)
    assert bool(count) == (name not in WITHOUT_FIXES)
    for number in range(count):
        stage, target = CASES[name]()
        told = account_of(stage, target).explanation
        assert told is not None
        fix = told.fixes[number]
        applied = Surgeon(stage, target).apply(fix.to_dict())
        if not applied:
            # Told in words only: for somebody else to be served, or CPU to come free.
            assert fix.kind in ("hold", "pod"), fix
            continue
        stage.run(60)
        assert Surgeon(stage, target).served(), fix.text


class Surgeon:
    """Makes the edits of a fix. What cannot be changed in place is made anew, with all that depends on it."""

    def __init__(self, stage: Stage, target: str) -> None:
        self.stage = stage
        self.kind, self.name = target.split("/")

    def served(self) -> bool:
        """The pod (one like it, where a workload made it anew) and its claims have devices and a node."""
        if self.kind == "claim":
            return bool(self.stage.devices(self.name))
        groups = self.stage.objects("ClaimGroup")
        if groups:
            return len(self.stage.bound()) >= groups[0]["spec"]["minMembers"]
        if self.stage.get("Pod", self.name) is not None:
            return self.name in self.stage.bound()
        return all(item["spec"].get("nodeName") for item in self.stage.objects("Pod"))

    def apply(self, fix: dict[str, Any]) -> bool:
        for actor in self.stage.world.actors:
            # Who was down is back: whatever is done, claims are freed by kube-controller-manager alone.
            vars(actor).pop("work", None)
        for edit in fix.get("edits", ()):
            if "copy" in edit:
                for number in range(edit["count"]):
                    self._another_node(edit["copy"].removeprefix("Node "), f"another-{number}")
            elif "delete" in edit:
                kind, _, name = edit["delete"].partition(" ")
                self.stage.delete(kind, name.rpartition("/")[2])
            else:
                self._edit(edit)
        return bool(fix.get("edits"))

    def _edit(self, edit: dict[str, Any]) -> None:
        kind, _, name = edit["object"].partition(" ")
        name = name.rpartition("/")[2]
        found = self.stage.get(kind, name)
        assert found is not None, edit
        changed = orjson.loads(orjson.dumps(found))
        _set(changed, edit["path"], edit["value"])
        if kind in ("Node", "DeviceClass", "ClaimGroup", "AllocationPolicy"):
            self.stage.apply(_bare(changed))
            return
        pods = [
            item
            for item in self.stage.objects("Pod")
            if (item["metadata"]["name"] == name and kind == "Pod")
            or any(entry.get("resourceClaimName") == name for entry in item["spec"].get("resourceClaims") or ())
        ]
        for item in pods:
            self.stage.delete("Pod", item["metadata"]["name"])
        self.stage.run(5)
        if kind != "Pod":
            self.stage.delete(kind, name)
            self.stage.run(5)
            self.stage.apply(_bare(changed))
        self.stage.apply(*(_bare(changed if kind == "Pod" else item) for item in pods))

    def _another_node(self, like: str, called: str) -> None:
        for kind in ("Node", "ResourceSlice"):
            for item in self.stage.objects(kind):
                name = item["metadata"]["name"]
                if name == like or item.get("spec", {}).get("nodeName") == like:
                    text = orjson.dumps(_bare(item)).decode()
                    self.stage.apply(orjson.loads(re.sub(rf'"{like}(?=["-])', f'"{called}', text)))


def _bare(item: Object) -> Object:
    """As a person would write it."""
    meta = {key: value for key, value in item["metadata"].items() if key in ("name", "namespace", "labels")}
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if not k.startswith("dra-operator.dev/")}
    spec = {k: v for k, v in (item.get("spec") or {}).items() if k not in ("schedulingGates", "priority")}
    bare = {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": meta, "spec": spec}
    if item["kind"] == "Node":
        bare["status"] = item["status"]
    return bare


def _set(item: Any, path: str, value: Any) -> None:
    """`a.b[0].c`, `a.labels[x/y.z]`; None takes it away."""
    parts = re.findall(r"\[([^\]]+)\]|([^.\[\]]+)", path)
    steps = [int(inner) if inner.isdigit() else inner or name for inner, name in parts]
    for step, following in pairwise(steps):
        if isinstance(item, dict):
            item = item.setdefault(step, [] if isinstance(following, int) else {})
        else:
            item = item[step]
    item[steps[-1]] = value
    if value is None:
        del item[steps[-1]]


def test_reports_of_a_gang_say_what_would_help_all_of_it() -> None:
    stage, _ = CASES["gang-in-one-rack"]()
    stage.run(60)
    told = [stage.report(f"c{number}")["explanation"] for number in range(3)]
    assert told[0]["requests"][0]["members"] == 3
    assert all(each["fixes"] == told[0]["fixes"] for each in told)
    assert told[0]["fixes"][0]["edits"] == [
        {"object": "ClaimGroup default/ring", "path": "spec.minMembers", "value": 2}
    ]
    assert max(len(orjson.dumps(each)) for each in told) < 16_000
