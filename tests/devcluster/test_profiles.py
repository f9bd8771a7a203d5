"""What the node profiles expand to, against the limits of the API and against real machines."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dra_operator import profiles
from dra_operator.profiles import ProfileError, device_classes, expand, expansion, parse_mix

CAPTURED = Path(__file__).parents[2].parent / "shared" / "data" / "slices"


def slices_of(profile: str, driver: str | None = None, index: int = 0) -> list[dict[str, Any]]:
    _, *slices = expand(profile, "n", index)
    return [made for made in slices if driver in (None, made["spec"]["driver"])]


def devices_of(profile: str, driver: str | None = None, index: int = 0) -> list[dict[str, Any]]:
    return list(chain(*(made["spec"].get("devices", []) for made in slices_of(profile, driver, index))))


def typed(attributes: dict[str, Any]) -> dict[str, str]:
    """Attribute name → its type."""
    return {name: next(iter(value)) for name, value in attributes.items()}


@pytest.mark.parametrize("profile", profiles.names())
def test_every_profile_keeps_the_limits_of_the_api(profile: str) -> None:
    node, *slices = expand(profile, "n", 0)
    assert node["kind"] == "Node"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]} == {"Ready": "True"}
    assert slices
    for made in slices:
        devices = made["spec"].get("devices", [])
        counters = made["spec"].get("sharedCounters", [])
        assert bool(devices) != bool(counters)
        assert len(devices) <= (64 if any("consumesCounters" in device for device in devices) else 128)
        assert len(counters) <= 8
        pool = [other for other in slices if other["spec"]["driver"] == made["spec"]["driver"]]
        assert made["spec"]["pool"] == {"name": "n", "generation": 1, "resourceSliceCount": len(pool)}
        for device in devices:
            assert len(device["attributes"]) + len(device.get("capacity", {})) <= 32
            assert all(len(value) == 1 for value in device["attributes"].values())
        assert all(len(counter_set["counters"]) <= 32 for counter_set in counters)
    names = [(made["spec"]["driver"], d["name"]) for made in slices for d in made["spec"].get("devices", [])]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("profile", profiles.names())
def test_the_same_input_gives_the_same_objects_and_another_node_other_uuids(profile: str) -> None:
    assert expand(profile, "n", 3) == expand(profile, "n", 3)

    def uuids(node: str) -> set[str]:
        _, *slices = expand(profile, node, 3)
        devices = chain(*(made["spec"].get("devices", []) for made in slices))
        return {d["attributes"]["uuid"]["string"] for d in devices if "uuid" in d["attributes"]}

    assert not uuids("n") & uuids("m")


@pytest.mark.parametrize(
    ("profile", "devices"),
    [
        ("p4d", {"gpu.nvidia.com": 8, "dra.net": 4}),
        ("h100", {"gpu.nvidia.com": 8, "dra.net": 8}),
        ("gb200", {"gpu.nvidia.com": 4, "dra.net": 8, "compute-domain.nvidia.com": 2}),
        ("mig", {"gpu.nvidia.com": 8 * (1 + 7 + 4 + 3 + 2 + 1 + 1)}),
        ("l4", {"gpu.nvidia.com": 4}),
        ("tpu-v6e", {"tpu.google.com": 4}),
        ("cpu", {"dra.cpu": 2}),
    ],
)
def test_devices_by_driver(profile: str, devices: dict[str, int]) -> None:
    assert {driver: len(devices_of(profile, driver)) for driver in devices} == devices


def test_gpus_and_nics_of_a_p4d_share_roots_and_numa_nodes() -> None:
    def places(driver: str) -> list[tuple[str, int]]:
        attributes = [device["attributes"] for device in devices_of("p4d", driver)]
        prefix = "resource.kubernetes.io"
        return [(a[f"{prefix}/pcieRoot"]["string"], a[f"{prefix}/numaNode"]["int"]) for a in attributes]

    assert places("dra.net") == [("pci0000:10", 0), ("pci0000:20", 0), ("pci0000:90", 1), ("pci0000:a0", 1)]
    assert places("gpu.nvidia.com") == [place for place in places("dra.net") for _ in range(2)]


@pytest.mark.parametrize(
    ("profile", "driver", "file", "ours_only"),
    [
        ("p4d", "gpu.nvidia.com", "aws-p4d-efa-gpu.yaml", {"resource.kubernetes.io/numaNode"}),
        ("p4d", "dra.net", "aws-p4d-efa-dranet.yaml", {"resource.kubernetes.io/numaNode"}),
        ("gb200", "gpu.nvidia.com", "oci-gb200-gpu.yaml", {"resource.kubernetes.io/numaNode"}),
        ("gb200", "dra.net", "oci-gb200-dranet.yaml", {"resource.kubernetes.io/numaNode"}),
    ],
)
def test_attributes_are_those_of_the_captured_machine(
    profile: str, driver: str, file: str, ours_only: set[str]
) -> None:
    if not CAPTURED.is_dir():
        pytest.skip(f"no captured slices at {CAPTURED}")
    captured = YAML(typ="safe").load(CAPTURED / file)
    items = captured.get("items", [captured])
    devices = chain(*(item["spec"]["devices"] for item in items))
    known: dict[str, str] = {}
    for device in devices:
        known |= typed(device["attributes"])
    for device in devices_of(profile, driver):
        ours = typed(device["attributes"])
        assert ours.keys() - known.keys() <= ours_only
        assert {name: kind for name, kind in ours.items() if name in known}.items() <= known.items()


def test_a_nvlink_domain_is_18_nodes() -> None:
    def domain(index: int) -> tuple[str, str]:
        node = expand("gb200", "n", index)[0]
        nic = devices_of("gb200", "dra.net", index)[0]
        return (
            node["metadata"]["labels"]["nvidia.com/gpu.clique"],
            nic["attributes"]["oke.dra.net/gpuMemoryFabricId"]["string"],
        )

    assert domain(0) == domain(17) == ("cluster-1.0", "fabric-0")
    assert domain(18) == ("cluster-1.1", "fabric-1")


def test_partitions_of_a_gpu_draw_on_its_counters() -> None:
    counters, *rest = slices_of("mig")
    assert [s["name"] for s in counters["spec"]["sharedCounters"]] == [f"gpu-{i}-counter-set" for i in range(8)]
    total = counters["spec"]["sharedCounters"][0]["counters"]
    devices = {device["name"]: device for device in rest[0]["spec"]["devices"]}
    whole, small, half = (devices[name] for name in ("gpu-0", "gpu-0-mig-1g5gb-6", "gpu-0-mig-3g20gb-4"))
    assert whole["consumesCounters"] == [{"counterSet": "gpu-0-counter-set", "counters": total}]
    assert small["consumesCounters"][0]["counters"] == {
        "memory": {"value": "4864Mi"},
        "multiprocessors": {"value": "14"},
        "copy-engines": {"value": "1"},
        "memory-slice-6": {"value": "1"},
    }
    assert {n for n in half["consumesCounters"][0]["counters"] if "slice" in n} == {
        f"memory-slice-{slot}" for slot in (4, 5, 6, 7)
    }
    assert small["attributes"]["parentUUID"] == whole["attributes"]["uuid"]
    assert "uuid" not in small["attributes"]
    assert small["attributes"]["type"] == {"string": "mig"}
    for device in devices.values():
        assert device["consumesCounters"][0]["counters"].keys() <= total.keys()


def test_cpus_are_shared_by_capacity() -> None:
    for device in devices_of("cpu"):
        assert device["allowMultipleAllocations"] is True
        assert device["capacity"] == {"dra.cpu/cpu": {"value": "64"}}


@pytest.mark.parametrize("profile", profiles.names())
def test_classes_name_the_drivers_of_the_profile(profile: str) -> None:
    drivers = {made["spec"]["driver"] for made in slices_of(profile)}
    expressions = [made["spec"]["selectors"][0]["cel"]["expression"] for made in device_classes(profile)]
    assert {driver for driver in drivers for text in expressions if f"device.driver == '{driver}'" in text} == drivers


@pytest.mark.parametrize(
    ("mix", "count", "parts"),
    [
        ("p4d", None, [("p4d", 1)]),
        ("p4d", 3, [("p4d", 3)]),
        ("p4d:2,l4:3", None, [("p4d", 2), ("l4", 3)]),
        ("p4d:2, l4:3", 5, [("p4d", 2), ("l4", 3)]),
        ("p4d:2,l4", 5, [("p4d", 2), ("l4", 3)]),
    ],
)
def test_mixes(mix: str, count: int | None, parts: list[tuple[str, int]]) -> None:
    assert parse_mix(mix, count) == parts


@pytest.mark.parametrize(
    ("mix", "count", "said"),
    [
        ("p5d", None, "there is no profile 'p5d': have cpu, "),
        ("", None, "there is no profile ''"),
        ("p4d:0", None, "'0' is no number of nodes for p4d"),
        ("p4d:two", None, "'two' is no number"),
        ("p4d,l4", 4, "say how many of each, as in p4d:2,l4:3"),
        ("p4d:2,l4:3", 6, "makes 5 nodes and 6 are asked for"),
        ("p4d:2,l4", 2, "no nodes are left for l4"),
        ("p4d", 0, "no nodes are left for p4d"),
    ],
)
def test_impossible_mixes_say_what_to_write(mix: str, count: int | None, said: str) -> None:
    with pytest.raises(ProfileError) as error:
        parse_mix(mix, count)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node: {}", "`description` is missing"),
        ("description: x\nnode: {capacity: {}}\npools: [", "while parsing"),
        (
            "description: x\nnode: {capacity: {}}\npools: [{driver: d, devices: [{name: a, attributes: {x: '{y}'}}]}]",
            "a profile uses {y}, which is not one of node, index",
        ),
        (
            "description: x\nnode: {capacity: {}}\npools: [{driver: d, devices: [{name: a, attributes: {x: 1.5}}]}]",
            "1.5 is no attribute value",
        ),
    ],
)
def test_a_broken_profile_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "broken.yaml").write_text(text)
    monkeypatch.setattr(expansion, "FOLDER", tmp_path)
    with pytest.raises(ProfileError) as error:
        expand("broken", "n", 0)
    assert said in str(error.value)
