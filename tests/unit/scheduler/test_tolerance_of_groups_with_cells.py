# SPDX-License-Identifier: Apache-2.0
"""Promises, and members of groups with cells that must be on one host."""

from __future__ import annotations

import dataclasses

import pytest

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.tolerance import REFUSE, Tolerance
from scheduler.compute.tolerance.hardware import Hardware
from tests.bench.admission import Filling, Scheduling
from tests.bench.snapshots import Cells, Guest
from tests.factories import uuid

LARGE = [8, 16]
SMALL = [1, 1]


class Grouping:
    """Hosts with two cells. Members of one affinity group with one cell of 8 vcpus each are placed on a."""

    def __init__(self, **cells: Cells) -> None:
        self.fleet = Filling(cells)
        self.scheduling = Scheduling(self.fleet, [Tolerance(policy=REFUSE)])
        self.scheduling.prove()

    def join(self, number: int = 1) -> None:
        first = len(self.fleet.known)
        names = [uuid(900 + first + each) for each in range(number)]
        placed = sorted(set(self.fleet.known))
        self.fleet.known.update({name: Guest(name, 1, *LARGE) for name in names})
        asked = self.fleet.demand(names[0]).request_spec
        asked = {**asked, "num_instances": number, "instance_uuids": names}
        group = {"group_uuid": uuid(800), "group_policies": ["affinity"], "group_members": [*placed, *names]}
        there = {"group_hosts": ["a"] if placed else [], "group_places": [[name, "a"] for name in placed]}
        properties = {**group, **there, "requested_destination": {"host": "a"}}
        try:
            request = RequestSpec.from_wire(asked, properties)
            chosen = self.scheduling.driver.select_destinations(None, request)  # type: ignore[arg-type]
        except errors.NoValidHost:
            for name in names:
                del self.fleet.known[name]
            raise
        assert ["a"] * number == [each.host for each in chosen]
        for name in names:
            self.fleet.claim(name, "a")

    def places(self) -> set[str]:
        """Return the hosts that take members if a is lost."""
        guard = self.scheduling.driver.admission._guard
        assert guard is not None
        return {node[0] for loss in guard.losses if "a" in loss.hosts for node in loss.reserved}


def test_members_with_cells_have_no_place_where_no_host_takes_them_all() -> None:
    """b, c and d have one cell for one member each."""
    grouping = Grouping(a=[LARGE, LARGE], b=[LARGE, SMALL], c=[LARGE, SMALL], d=[LARGE, SMALL])
    grouping.join()
    with pytest.raises(errors.NoValidHost, match="would find no other host if a was lost"):
        grouping.join()


def test_members_with_cells_of_one_request_have_no_place_either() -> None:
    grouping = Grouping(a=[LARGE, LARGE], b=[LARGE, SMALL], c=[LARGE, SMALL], d=[LARGE, SMALL])
    with pytest.raises(errors.NoValidHost, match="would find no other host if a was lost"):
        grouping.join(2)
    assert set() == grouping.places()


def test_members_with_cells_have_their_place_on_one_host() -> None:
    """Only b takes both: as one request."""
    grouping = Grouping(a=[LARGE, LARGE], b=[LARGE, LARGE], c=[LARGE, SMALL], d=[LARGE, SMALL])
    grouping.join(2)
    assert {"b"} == grouping.places()


def test_members_with_cells_have_their_place_one_after_the_other() -> None:
    """All other hosts take both."""
    grouping = Grouping(a=[LARGE, LARGE], b=[LARGE, LARGE], c=[LARGE, LARGE])
    grouping.join()
    (first,) = grouping.places()
    grouping.join()
    assert {first} == grouping.places()


def test_guests_with_cells_are_added_and_taken_out_one_by_one() -> None:
    fleet = Filling({"a": [LARGE, LARGE]})
    fleet.known[uuid(1)] = Guest("guest", 1, *LARGE)
    request = RequestSpec.from_wire(fleet.demand(uuid(1)).request_spec, {})
    one, other = (Hardware.of([dataclasses.replace(request)]) for _guest in range(2))
    assert one is not None
    assert other is not None
    both = one.with_more(other)
    assert 2 == len(both.requests)
    assert one == both.without(other)
    assert both.without(both) is None
