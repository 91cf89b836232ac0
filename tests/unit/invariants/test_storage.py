# SPDX-License-Identifier: Apache-2.0
"""The checks of volumes and pools find what they are for, and nothing else."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tests.invariants import storage
from tests.unit.invariants.builders import NOW, ledger, pool, volume

LATE = NOW - datetime.timedelta(seconds=60)
DELETING = {"status": "deleting", "step": "working", "deadline": NOW}
HELD = {"held_host": "m2@disks", "held_pool": "q", "held_gb": 10}
WRONG = [
    ("the pool counts another sum", {"pool": {"allocated_capacity_gb": 9}}, "counts (9, 1)"),
    ("the pool counts another number", {"pool": {"total_volumes": 2}}, "counts (10, 2)"),
    ("more is claimed than may be", {"pool": {"total_capacity_gb": 10.0}}, "at most 9 are allowed"),
    ("a state that does not exist", {"volume": {"step": "placing"}}, "available/placing, which does not exist"),
    ("late", {"volume": {"status": "creating", "step": "working", "deadline": LATE}}, "after its deadline"),
    ("an error without a reason", {"volume": {"status": "error"}}, "without a reason"),
    ("a deletion that takes too long", {"volume": {**DELETING, "deadline": LATE}}, "after its deadline"),
    ("a second claim without a reason", {"volume": HELD}, "available/None and holds 10 GiB elsewhere"),
    ("a copy to no pool", {"volume": {"status": "migrating", "step": "copying", "deadline": NOW}}, "holds 0 GiB"),
    ("a claim without a pool", {"volume": {"host": None, "pool": None}}, "claims 10 GiB of None#None"),
]


def at_moment(given: dict[str, Any]) -> list[str]:
    wrong = ledger(pools=[pool(**given.get("pool", {}))], volumes=[volume(**given.get("volume", {}))])
    return [*storage.pools_count_their_volumes(wrong), *storage.every_volume_ends_in_time(wrong)]


@pytest.mark.parametrize(("_name", "given", "said"), WRONG, ids=[case[0] for case in WRONG])
def test_what_is_wrong_is_found(_name: str, given: dict[str, Any], said: str) -> None:
    """With a sentence that has the numbers."""
    assert any(said in line for line in at_moment(given)), at_moment(given)


GOOD = [
    {},
    {"pool": {"total_capacity_gb": None}},
    {"pool": {"max_over_subscription_ratio": "auto", "total_capacity_gb": 1.0}},
    {"volume": {"status": "extending", "step": "working", "size_gb": 5, "deadline": NOW}},
    {"volume": DELETING},
    {"volume": {**HELD, "step": "removing"}},
    {"volume": {**HELD, "status": "migrating", "step": "copying", "deadline": NOW}},
    {
        "volume": {
            **HELD,
            "held_host": "m1@disks",
            "held_pool": "p",
            "claimed_gb": 5,
            "held_gb": 5,
            "step": "removing",
        },
        "pool": {"total_volumes": 2},
    },
    {"volume": {"status": "creating", "step": "working", "deadline": NOW}},
]


@pytest.mark.parametrize("given", GOOD, ids=range(len(GOOD)))
def test_what_is_right_is_not_a_violation(given: dict[str, Any]) -> None:
    """Nor what cannot be judged."""
    assert [] == at_moment(given)


def test_at_rest_backends_have_what_the_ledger_has() -> None:
    """By what lies there, and by what the agent counts. Backends that were not looked at are not judged."""
    good = ledger(pools=[pool()], volumes=[volume()])
    for stored in ({"m1@disks#p": {"v1": 10}}, {}):
        assert [] == list(storage.volumes_are_where_the_ledger_says(good, stored))
    for wrong in ({"v1": 9, "v2": 1}, {"v1": 10, "v2": 1}, {}):
        assert list(storage.volumes_are_where_the_ledger_says(good, {"m1@disks#p": wrong})), wrong
    stale = ledger(pools=[pool(capabilities={"allocated_capacity_gb": 0})], volumes=[volume()])
    (line,) = storage.volumes_are_where_the_ledger_says(stale, {"m1@disks#p": {"v1": 10}})
    assert "its agent counts 0 GiB, there are 10" in line
    under_way = ledger(volumes=[volume(**DELETING)])
    assert 1 == len(list(storage.every_volume_is_over(under_way)))


def test_snapshots_count_as_space_and_not_as_volumes() -> None:
    """They are where their volume is, which lives as long as they do."""
    snapshot = volume(uuid="s1", snapshot_of="v1")
    counted = pool(allocated_capacity_gb=20, total_capacity_gb=30.0, capabilities={"allocated_capacity_gb": 20})
    good = ledger(pools=[counted], volumes=[volume(), snapshot])
    assert [] == [*storage.pools_count_their_volumes(good), *storage.snapshots_have_their_volume(good)]
    assert [] == list(storage.volumes_are_where_the_ledger_says(good, {"m1@disks#p": {"v1": 10, "s1": 10}}))
    lost = ledger(volumes=[volume(deleted=True), snapshot])
    assert ["snapshot s1 has lost its volume v1"] == list(storage.snapshots_have_their_volume(lost))
    elsewhere = ledger(volumes=[volume(pool="q"), snapshot])
    assert ["snapshot s1 is not on the pool of its volume v1"] == list(storage.snapshots_have_their_volume(elsewhere))


GIVEN_UP = [
    ("a volume was not made in time", {"status": "error"}, {None, 10}),
    ("a volume was not removed in time", {"status": "error_deleting"}, {None, 10}),
    ("a volume was not managed in time", {"status": "error_managing"}, {None, 10}),
    ("a volume was not extended in time", {"status": "error_extending", "size_gb": 5}, {5, 10}),
    ("all is well", {}, {10}),
]


@pytest.mark.parametrize(("_name", "given", "sizes"), GIVEN_UP, ids=[case[0] for case in GIVEN_UP])
def test_what_was_given_up_may_be_there_or_not(_name: str, given: dict[str, Any], sizes: set[int | None]) -> None:
    """Its backend may have done its part or not. Nothing else may be there."""
    for size in (None, 5, 7, 10):
        there = {} if size is None else {"v1": size}
        counted = pool(capabilities={"allocated_capacity_gb": size or 0})
        found = list(
            storage.volumes_are_where_the_ledger_says(
                ledger(pools=[counted], volumes=[volume(**given)]), {"m1@disks#p": there}
            )
        )
        assert (size in sizes) == (not found), (size, found)


def test_a_volume_whose_size_is_not_read_yet_claims_nothing_of_its_pool() -> None:
    """It has a pool all the same, and is one of its volumes. No other volume may be so."""
    timed = {"deadline": NOW, "step": "working"}
    found = volume(status="managing", claimed_gb=0, size_gb=0, **timed)
    assert [] == list(storage.every_volume_ends_in_time(ledger(volumes=[found])))
    (line,) = storage.every_volume_ends_in_time(ledger(volumes=[{**found, "status": "creating"}]))
    assert "claims 0 GiB of m1@disks#p" in line


def _attachment(**changed: Any) -> dict[str, Any]:
    known = {"uuid": "a1", "volume_uuid": "v1", "instance_uuid": "i1", "status": "attached", "is_alive": True}
    return {**known, "vm_state": "active", **changed}


ATTACHMENTS = [
    ("all is well", "in-use", [_attachment()], []),
    ("nothing is attached", "available", [], []),
    ("its guest is lost", "in-use", [], ["volume v1 is in-use, its attachment None"]),
    ("it is given out again", "available", [_attachment()], ["volume v1 is available, its attachment attached"]),
    ("its instance is deleted", "in-use", [_attachment(is_alive=0)], ["attachment a1 has lost its instance i1"]),
    ("it is built", "reserved", [_attachment(status="reserved", vm_state="building")], []),
    (
        "no build is left",
        "reserved",
        [_attachment(status="reserved")],
        ["attachment a1 is reserved, its instance active"],
    ),
    (
        "its guest is not there yet",
        "in-use",
        [_attachment(vm_state="building")],
        ["attachment a1 is attached, its instance building"],
    ),
    ("two guests", "in-use", [_attachment(), _attachment(uuid="a2")], ["of 2 attachments 1 share a volume"]),
]


@pytest.mark.parametrize(("_name", "status", "attached", "lines"), ATTACHMENTS, ids=[case[0] for case in ATTACHMENTS])
def test_attachments_agree_with_volumes(_name: str, status: str, attached: Any, lines: list[str]) -> None:
    found = ledger(volumes=[volume(status=status)], attachments=attached)
    assert lines == list(storage.attachments_agree_with_volumes(found))


def test_guests_have_their_volumes() -> None:
    found = ledger(volumes=[volume(status="in-use")], attachments=[_attachment()])
    assert [] == list(storage.guests_have_their_volumes(found, {"i1": ["v1"]}))
    lines = ["guest i1 has the volumes [], the ledger ['v1']", "guest i2 has the volumes ['v2'], the ledger []"]
    assert lines == list(storage.guests_have_their_volumes(found, {"i2": ["v2"]}))
