"""How much the choice of victims looks at: on a full cluster it must not look closely at every node, nor twice at anything."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from dra_operator.preemption import search
from dra_operator.preemption.outlook import Outlook
from dra_operator.preemption.victims import NoVictims, Victims
from tests.preemption.worlds import DRIVER, World, ask, part, share

NODES = 30


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str], list[object]]:
    """`calls(owner, name)`: a list that gets an entry at each call of that function."""

    def count(owner: object, name: str) -> list[object]:
        function, made = getattr(owner, name), list[object]()

        def counting(*args: object, **kwargs: object) -> object:
            made.append(name)
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)
        return made

    return count


def quarters(count: int) -> dict[str, object]:
    selector = f'device.attributes["{DRIVER}"].quarters == {count}'
    return {"count": 1, "selectors": [{"cel": {"expression": selector}}]}


@pytest.mark.parametrize(("wanted", "victims"), [(2, 2), (4, 4)])
def test_devices_that_overlap_are_counted_before_a_node_is_looked_at(
    wanted: int, victims: int, calls: Callable[[object, str], list[object]]
) -> None:
    """Every node's whole device and halves are covered by its four quarters, all used."""
    world = World()
    for number in range(NODES):
        name = f"n{number}"
        sizes = (4, 2, 2, 1, 1, 1, 1)
        world.node(name, [part(size, quarters={"int": size}) for size in sizes], counters={"units": "4"})
        for quarter in range(3, 7):
            world.hold(f"{name}-{quarter}", f"{name}/d{quarter}", priority=(7 * number + quarter) % 40)
    opened = calls(search.Search, "_open")
    chosen = world.choose(ask(quarters(wanted)))
    assert isinstance(chosen, Victims)
    assert len(chosen.holders) == victims
    assert len(opened) <= 2


def test_sets_that_free_too_little_of_one_device_are_not_tried(calls: Callable[[object, str], list[object]]) -> None:
    """Each device has four shares of a quarter, and half a device is wanted: of the pairs of pods, those of one device will do."""
    world = World()
    priorities = Random(1).sample(range(90), NODES // 10 * 16)
    for number in range(NODES // 10):
        name = f"n{number}"
        world.node(name, [share("8") for _ in range(4)])
        for device in range(4):
            for quarter in range(4):
                world.hold(
                    f"{name}-{device}-{quarter}", f"{name}/d{device}", priority=priorities.pop(), share={"memory": "2"}
                )
    tried, priced = calls(search.Search, "_suffices"), calls(search, "cost")
    chosen = world.choose(ask({"count": 1, "capacity": {"requests": {"memory": "4"}}}))
    assert isinstance(chosen, Victims)
    assert len({holder.uid.rsplit("-", 1)[0] for holder in chosen.holders}) == 1
    # All of a node at once, the set found, and that set without each of the two: for one node, or a few more.
    assert len(tried) <= 8
    pairs = 16 * 15 // 2
    assert len(priced) <= pairs + 10  # all pairs of one node; of the next, those that could be better


def test_a_node_is_given_up_at_the_first_pod_too_many_under_a_budget(
    calls: Callable[[object, str], list[object]],
) -> None:
    """Every device of a node is needed, and a budget protects the pod that would go first; the outlook serves both searches: with
    budgets and, to say why there is no way, without."""
    world = World().budget("none", 0, {"app": "kept"})
    for number in range(NODES):
        name = f"n{number}"
        world.node(name, 4)
        for device in range(4):
            world.hold(
                f"{name}-{device}",
                f"{name}/d{device}",
                priority=device,
                labels={"app": "kept" if device == 0 else "other"},
            )
    charged, outlooks = calls(search, "charges_of"), calls(Outlook, "__init__")
    chosen = world.choose(ask(4))
    assert isinstance(chosen, NoVictims)
    assert len(chosen.closest) == 4
    assert len(charged) == NODES + 4  # and the four named as the closest
    assert len(outlooks) == 1
