"""NetworkDeviceClasses: what their words become, the DeviceClass each owns and no other, and what the status says."""

from __future__ import annotations

from typing import Any

import pytest

from dra_operator.api.meta import Key
from dra_operator.api.networkclass import NetworkDeviceClassSpec
from dra_operator.api.slices import Device
from dra_operator.cel import bind_device, cached_selector
from dra_operator.cluster.memory.identity import User
from dra_operator.cluster.memory.refusals import Refused
from dra_operator.cluster.rest import BY_KIND, Request, Response
from dra_operator.engine.decisions import WriteNetworkStatus
from dra_operator.engine.networkdrivers import InvalidNetworkClass, class_spec, terms_of
from tests.engine.gangs import group
from tests.engine.stage import Object, Stage, claim, device_class, node, pod

SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"


def value(found: Any) -> Object:
    return {"bool" if isinstance(found, bool) else "int" if isinstance(found, int) else "string": found}


def nic(name: str, capacity: str = "", **attributes: Any) -> Object:
    found: Object = {"name": name, "attributes": {key: value(item) for key, item in attributes.items()}}
    if capacity:
        found["capacity"] = {"bandwidth": {"value": capacity}}
    return found


def nics(driver: str, *devices: Object) -> Object:
    name = f"n1-{driver}"
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": "n1", "pool": pool, "devices": list(devices)}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def network(name: str = "fast", **spec: Any) -> Object:
    return {
        "apiVersion": "dra-operator.dev/v1alpha1",
        "kind": "NetworkDeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


DEVICES = {
    "plain": ("dra.net", nic("d", rdma=False)),
    "rdma": ("dra.net", nic("d", rdma=True)),
    "silent": ("dra.net", nic("d")),
    "vf": ("dra.net", nic("d", isSriovVf=True)),
    "told 400": ("dra.net", nic("d", bandwidthGbps=400)),
    "capacity 200": ("dra.net", nic("d", "200G")),
    "capacity 100": ("dra.net", nic("d", "100G")),
    "sriov": (SRIOV, nic("d", vendor="15b3")),
    "sriov rdma": (SRIOV, nic("d", rdmaCapable=True)),
    "other rdma": ("nic.example.com", nic("d", rdma=True)),
    "legacy": ("legacy.dra-operator.dev", nic("d", bandwidth_gbps=200, low_latency=True)),
}

#: What is asked for, and which of the devices match.
MEANINGS: list[tuple[Object, set[str]]] = [
    ({}, {"plain", "rdma", "silent", "vf", "told 400", "capacity 200", "capacity 100", "sriov", "sriov rdma"}),
    ({"driver": "dra.net", "rdma": True}, {"rdma"}),
    ({"rdma": True}, {"rdma", "sriov rdma"}),
    ({"rdma": False}, {"plain", "silent", "vf", "told 400", "capacity 200", "capacity 100", "sriov"}),
    ({"lowLatency": True}, {"rdma", "vf", "sriov", "sriov rdma"}),
    ({"lowLatency": False}, {"plain", "silent", "told 400", "capacity 200", "capacity 100"}),
    ({"minBandwidthGbps": 200}, {"told 400", "capacity 200"}),
    ({"driver": "nic.example.com", "rdma": True}, {"other rdma"}),
    ({"driver": "legacy.dra-operator.dev", "minBandwidthGbps": 200, "lowLatency": True}, {"legacy"}),
    ({"selectors": [{"cel": {"expression": 'device.attributes["dra.net"].?rdma.orValue(false)'}}]}, {"rdma"}),
]


@pytest.mark.parametrize(("spec", "expected"), MEANINGS, ids=[str(spec)[:40] for spec, _ in MEANINGS])
def test_what_the_words_mean(spec: Object, expected: set[str]) -> None:
    terms = terms_of(NetworkDeviceClassSpec.read(spec))
    matching = set()
    for name, (driver, raw) in DEVICES.items():
        device = Device.from_dict(raw)
        bound = bind_device(driver, device.attributes, device.capacity, device.allow_multiple)
        if all(cached_selector(term.expression).matches(bound) for term in terms):
            matching.add(name)
    assert matching == expected


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        (
            {"config": {"interface": {"mtu": 9000}}},
            [{"opaque": {"driver": "dra.net", "parameters": {"interface": {"mtu": 9000}}}}],
        ),
        ({"driver": SRIOV, "config": {"a": [1]}}, [{"opaque": {"driver": SRIOV, "parameters": {"a": [1]}}}]),
        ({}, None),
    ],
)
def test_config_goes_to_the_driver_as_it_is(spec: Object, config: Any) -> None:
    assert class_spec(NetworkDeviceClassSpec.read(spec)).get("config") == config


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"driver": 'x"'}, "driver: 'x\"' is not a DNS name"),
        (
            {"selectors": [{"cel": {"expression": "device.nothing"}}]},
            r"selectors\[0\]: the expression does not compile",
        ),
        ({"selectors": [{"cel": {"expression": "true"}}] * 32}, "at most 32, and 1 are needed"),
    ],
)
def test_what_cannot_be_compiled(spec: Object, message: str) -> None:
    with pytest.raises(InvalidNetworkClass, match=message):
        class_spec(NetworkDeviceClassSpec.read(spec))


def status(stage: Stage, name: str = "fast") -> Object:
    found = stage.get("NetworkDeviceClass", name)
    assert found is not None
    return dict(found.get("status") or {})


RDMA = nics("dra.net", nic("a", rdma=True), nic("b", rdma=True), nic("c", rdma=False))


def test_it_becomes_the_class_of_its_name() -> None:
    stage = Stage(node("n1"), RDMA, network(rdma=True), claim("c", 2, of="fast"), pod("p", "c")).run(20)

    made = stage.get("DeviceClass", "fast")
    assert made is not None
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("NetworkDeviceClass", "fast", True)
    assert stage.bound() == {"p": "n1"}
    assert not stage.events("Unsatisfiable"), "the class is about to be made"
    found = status(stage)
    assert (found["phase"], found["matchingDevices"], found["observedGeneration"]) == ("Ready", 2, 1)
    assert [(item["type"], item["status"], item["reason"]) for item in found["conditions"]] == [
        ("Ready", "True", "Compiled")
    ]


def test_a_change_goes_to_the_class_and_its_deletion_takes_it_along() -> None:
    stage = Stage(node("n1"), RDMA, network(rdma=True), claim("c", of="fast")).run(20)
    stage.apply(network(rdma=False))
    stage.run(20)
    assert status(stage)["matchingDevices"] == 1
    assert stage.report("c")["phase"] == "Drifted"

    stage.delete("NetworkDeviceClass", "fast")
    stage.run(20)
    assert stage.get("DeviceClass", "fast") is None
    assert stage.report("c")["reason"] == "ClassDeleted"


def test_what_others_do_to_the_class_is_put_right_and_the_rest_of_it_left_alone() -> None:
    stage = Stage(node("n1"), RDMA, network(rdma=True)).run(20)
    spec = {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "example.com/nic"}
    stage.patch("DeviceClass", "fast", {"metadata": {"labels": {"team": "net"}}, "spec": spec})
    stage.run(20)

    made = stage.get("DeviceClass", "fast")
    assert made is not None
    assert "rdma" in made["spec"]["selectors"][1]["cel"]["expression"]
    assert made["spec"]["extendedResourceName"] == "example.com/nic"
    assert made["metadata"]["labels"] == {"team": "net"}

    stage.delete("DeviceClass", "fast")
    stage.run(20)
    assert stage.get("DeviceClass", "fast") is not None


def test_a_class_that_somebody_else_made_is_never_touched() -> None:
    other = device_class("fast", "false")
    stage = Stage(node("n1"), RDMA, other, network(rdma=True)).run(20)
    assert status(stage)["phase"] == "Conflict"
    assert len(stage.events("Conflict")) == 1
    found = stage.get("DeviceClass", "fast")
    assert found is not None
    assert found["spec"] == other["spec"]
    stage.delete("NetworkDeviceClass", "fast")
    stage.run(20)
    assert stage.get("DeviceClass", "fast") is not None

    stage.apply(network(rdma=True))
    stage.delete("DeviceClass", "fast")
    stage.run(20)
    assert status(stage)["phase"] == "Ready"


def test_what_cannot_be_compiled_leaves_the_class_as_it_was() -> None:
    stage = Stage(node("n1"), RDMA, network(rdma=True), network("broken", driver="X"), network("good")).run(20)
    before = stage.get("DeviceClass", "fast")
    stage.apply(network(selectors=[{"cel": {"expression": "device.nothing"}}]))
    stage.run(20)

    found = status(stage)
    assert (found["phase"], found["conditions"][0]["reason"]) == ("Invalid", "DoesNotCompile")
    assert "selectors[0]" in found["message"]
    assert "stays as it was" in found["message"]
    assert stage.get("DeviceClass", "fast") == before
    assert (status(stage, "broken")["phase"], status(stage, "good")["phase"]) == ("Invalid", "Ready")
    assert stage.get("DeviceClass", "broken") is None


def test_what_the_api_server_refuses_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(node("n1"), RDMA, claim("c", of="fast"), pod("p", "c"))
    serve, asked = stage.world.server.handle, []

    def refusing(request: Request, user: User) -> Response:
        if request.method == "GET" or not request.path.startswith(BY_KIND["DeviceClass"].path()):
            return serve(request, user)
        asked.append(stage.world.now)
        return Refused(422, "Invalid", "spec.config[0].opaque.parameters: Too long").response()

    monkeypatch.setattr(stage.world.server, "handle", refusing)
    stage.apply(network(rdma=True), network("good", rdma=True))
    stage.run(60)

    found = status(stage)
    assert (found["phase"], found["conditions"][0]["reason"]) == ("Invalid", "Refused")
    assert found["message"] == ("the API server refuses the DeviceClass: spec.config[0].opaque.parameters: Too long")
    assert len(stage.events("Invalid")) == 2, "one for each, however often it is tried"
    assert len(asked) == 2 * 5, "again after 2, 4, 8 and 16 seconds"
    written = [each for each in stage.runner.executed if isinstance(each.decision, WriteNetworkStatus)]
    assert len(written) == 2
    assert stage.report("c")["phase"] == "Unsatisfiable"

    stage.apply(network(rdma=False))
    stage.run(1)
    assert len(asked) == 2 * 5 + 1, "another spec is tried at once"

    monkeypatch.undo()
    stage.run(600)
    assert (status(stage)["phase"], status(stage, "good")["phase"]) == ("Ready", "Ready")
    assert stage.bound() == {"p": "n1"}


def test_claims_of_a_class_that_is_not_made_are_told_why() -> None:
    """Alone and in a group, whichever came first; and served once it is mended."""
    together = {"dra-operator.dev/claim-group": "g"}
    stage = Stage(node("n1"), RDMA, claim("early", of="broken"), pod("early", "early")).run(20)
    assert "create it or name another one" in summary(stage, "early")

    stage.apply(network("broken", driver="X"), group("g", 1))
    stage.apply(claim("late", of="broken"), pod("late", "late"))
    stage.apply(claim("member", of="broken"), pod("member", "member", labels=together))
    stage.run(20)
    for name in ("early", "late", "member"):
        assert summary(stage, name) == (
            f"claim default/{name}, request gpu: device class broken not found; NetworkDeviceClass broken should make it "
            "and is Invalid (DoesNotCompile): driver: 'X' is not a DNS name such as dra.net"
        ), name
        account = stage.engines[-1].explain("claim", Key("default", name), stage.world.now)
        assert account is not None
        assert account.explanation is not None
        assert [cause.text for cause in account.explanation.causes] == [summary(stage, name)]

    stage.apply(network("broken", selectors=[{"cel": {"expression": "true"}}]))
    stage.run(20)
    assert set(stage.bound()) == {"early", "late", "member"}


def summary(stage: Stage, name: str) -> Any:
    return stage.report(name)["explanation"]["summary"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"minBandwidthGbps": 200},
            "none of the 3 devices of dra.net and sriovnetwork.k8snetworkplumbingwg.io matches; rejected by minBandwidthGbps 3",
        ),
        ({"driver": "nic.example.com"}, "no device of nic.example.com is published"),
    ],
)
def test_a_class_that_nothing_matches_says_why(spec: Object, message: str) -> None:
    found = status(Stage(node("n1"), RDMA, network(**spec)).run(20))
    assert (found["phase"], found["matchingDevices"], found["message"]) == ("Ready", 0, message)


def test_a_restart_writes_nothing_anew() -> None:
    stage = Stage(node("n1"), RDMA, network(rdma=True)).run(20)
    written = len(stage.runner.executed)
    stage.runner.kill()
    stage.run(30)
    assert [type(each.decision).__name__ for each in stage.runner.executed[written:]] == []
