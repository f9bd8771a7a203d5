"""Lists and watches that overlap: what counts as news."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.meta import Key
from dra_operator.operator.freshness import Ledger, revision_of

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")


def listed(ledger: Ledger, items: dict[Key, int], revision: int) -> tuple[set[Key], set[Key]]:
    """Keys that were news, keys alive afterwards."""
    ledger.listing(revision)
    news = {key for key, seen in items.items() if ledger.listed_item(key, seen)}
    return news, ledger.complete(set(items), revision)


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    assert listed(made, {A: 5, B: 6}, 10) == ({A, B}, {A, B})
    return made


def test_a_list_again_tells_only_what_changed(ledger: Ledger) -> None:
    assert listed(ledger, {A: 5, B: 12}, 12) == ({B}, {A, B})


def test_what_a_list_lacks_is_gone(ledger: Ledger) -> None:
    assert listed(ledger, {A: 5}, 12) == (set(), {A})


def test_an_event_newer_than_the_list_survives_it(ledger: Ledger) -> None:
    assert ledger.news(C, 20, ordered=False)
    assert listed(ledger, {A: 5}, 15) == (set(), {A, C})


def test_an_older_state_never_replaces_a_newer_one(ledger: Ledger) -> None:
    assert ledger.news(A, 20, ordered=False)
    assert not ledger.news(A, 15, ordered=False)
    assert not ledger.gone(A, 18, ordered=False)
    assert listed(ledger, {A: 5, B: 6}, 15)[0] == set()


def test_a_deleted_object_is_not_brought_back_by_late_news(ledger: Ledger) -> None:
    assert ledger.gone(A, 20, ordered=False)
    assert not ledger.news(A, 19, ordered=False)
    assert listed(ledger, {A: 5, B: 6}, 15) == (set(), {B})
    assert ledger.news(A, 21, ordered=False), "a successor of the same name"


def test_late_news_of_what_a_list_did_not_show_is_old(ledger: Ledger) -> None:
    assert not ledger.news(C, 9, ordered=False)
    assert ledger.news(C, 11, ordered=False)


def test_a_store_restored_from_a_backup_begins_anew(ledger: Ledger) -> None:
    assert listed(ledger, {A: 3}, 4) == ({A}, {A})
    assert ledger.news(A, 5, ordered=False)


def test_what_our_own_watch_has_told_needs_no_memory() -> None:
    ledger = Ledger()
    listed(ledger, {A: 5}, 10)
    assert ledger.gone(A, 11, ordered=False)
    for revision in range(12, 50, 2):
        assert ledger.news(B, revision, ordered=True)
        assert ledger.gone(B, revision + 1, ordered=True)
    assert not ledger._dead
    assert not ledger.news(B, 12, ordered=True)


def test_what_the_other_source_told_first_is_told_once(ledger: Ledger) -> None:
    assert ledger.news(C, 20, ordered=False)
    assert ledger.gone(A, 21, ordered=False)
    assert not ledger.news(A, 15, ordered=True), "its last change before that"
    assert not ledger.news(C, 20, ordered=True)
    assert not ledger.gone(A, 21, ordered=True)
    assert ledger.news(A, 22, ordered=True)


def test_what_our_own_watch_has_passed_is_old(ledger: Ledger) -> None:
    assert ledger.news(C, 20, ordered=True)
    assert not ledger.news(B, 19, ordered=False), "it would have told"


@pytest.mark.parametrize(
    ("item", "revision"),
    [({"metadata": {"resourceVersion": "17"}}, 17), ({"metadata": {}}, 0), ({"metadata": {"resourceVersion": "x"}}, 0)],
)
def test_revisions_are_numbers(item: dict[str, object], revision: int) -> None:
    assert revision_of(item) == revision


HISTORY = st.lists(st.tuples(st.sampled_from([A, B, C]), st.booleans()), min_size=1, max_size=12)


@given(HISTORY, st.randoms(use_true_random=False), st.lists(st.integers(0, 12), max_size=3))
def test_whatever_the_order_of_arrival_the_end_is_the_truth(
    history: list[tuple[Key, bool]], shuffle: Random, lists: list[int]
) -> None:
    """Every event of a history arrives from both sources, from ours in order, with lists of any moment in between; then one last list."""
    state: dict[Key, int] = {}
    events: list[tuple[Key, str, int]] = []
    snapshots = [({}, 100)]
    for revision, (key, delete) in enumerate(history, start=101):
        if delete and key in state:
            del state[key]
            events.append((key, "gone", revision))
        else:
            state[key] = revision
            events.append((key, "news", revision))
        snapshots.append((dict(state), revision))
    ledger, known = Ledger(), dict[Key, int]()

    def read(items: dict[Key, int], revision: int) -> None:
        news, alive = listed(ledger, items, revision)
        known.update({key: items[key] for key in news})
        for key in set(known) - alive:
            del known[key]

    ours, others = list(events), list(events)
    shuffle.shuffle(others)
    moments = sorted(min(moment, len(snapshots) - 1) for moment in lists)
    told = 0
    while ours or others:
        told += 1
        if moments and told % 4 == 3 and moments[0] >= len(events) - len(ours):
            # Our own watch goes on from our own list.
            moment = moments.pop(0)
            read(*snapshots[moment])
            ours = ours[moment - (len(events) - len(ours)) :]
            continue
        ordered = bool(ours) and (not others or shuffle.random() < 0.5)
        key, what, revision = (ours if ordered else others).pop(0)
        if what == "news" and ledger.news(key, revision, ordered=ordered):
            known[key] = revision
        if what == "gone" and ledger.gone(key, revision, ordered=ordered):
            known.pop(key, None)
    assert known == state, "without any list at the end"
    read(*snapshots[-1])
    assert known == state
