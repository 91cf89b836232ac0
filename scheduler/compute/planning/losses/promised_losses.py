# SPDX-License-Identifier: Apache-2.0
"""Keeps up to date which losses the promises cover, and whether a plan exists for each of them.

:mod:`scheduler.compute.planning.losses.promises` calls it in each round.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy
from oslo_config import cfg

from fleet.clock import Clock
from fleet.db.operations import tolerances
from fleet.objects.survival import Loss
from fleet.objects.tolerance import Tolerance
from scheduler.compute.domain.failure_domains import NOWHERE, FailureDomains
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.ground import packing
from scheduler.compute.planning.losses.decisions import Decisions
from scheduler.compute.planning.losses.room_reader import RequestsOf, RoomReader
from scheduler.compute.tolerance.hardware import Hardware
from scheduler.compute.tolerance.kept import Amount, Node
from scheduler.compute.tolerance.losses import Places
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.survival.room import NO_GROUP, Changed, Finding, Losses, Room
from scheduler.planning.survival.standing import Kinds, Standing
from scheduler.state.booking import Booking
from scheduler.state.host_manager import Feed

#: Seconds for one loss, and for those of one look that need more than a host for each guest.
LIMIT_S, _LOOK_S = 1.0, 5.0
#: Plans are made anew after so many seconds: they put guests where there is most room, and this place moves.
_ANEW_S = 600.0
#: All requests are read again after so many seconds: what else they depend on may have changed.
_READ_AGAIN_S = 3600.0


@dataclasses.dataclass(frozen=True)
class OfPromise:
    """The losses of one promise, by their numbers. :param unlooked: hosts of more losses than can be looked at"""

    tolerance: Tolerance
    numbers: Sequence[int]
    unlooked: Sequence[str] = ()


class Lost(Sequence[Loss]):
    """All losses, each once, and of which promises they are."""

    def __init__(self, promised: Sequence[Tolerance], hosts: Candidates, default_zone: str) -> None:
        rows_of: dict[str, list[int]] = {}
        for row in hosts.rows[hosts.present()].tolist():
            rows_of.setdefault(hosts.key(row)[0], []).append(row)
        names, known = sorted(rows_of), hosts.all_aggregates()
        self.by_promise: list[OfPromise] = []
        number_of: dict[frozenset[str], int] = {}
        self._losses: list[Loss] = []
        for each in promised:
            scope = tolerances.hosts_of(each, names, known, default_zone)
            found = each.losses(scope, _values(hosts, each.label, rows_of) if each.label else {})
            numbers = []
            for loss in found or ():
                number = number_of.setdefault(frozenset(loss.hosts), len(self._losses))
                if number == len(self._losses):
                    self._losses.append(loss)
                numbers.append(number)
            self.by_promise.append(OfPromise(each, numbers, [] if found is not None else scope))
        self.names = frozenset(names)
        self.hosts = [frozenset(loss.hosts) for loss in self._losses]
        self.rows = Losses.of([[row for host in loss.hosts for row in rows_of[host]] for loss in self._losses])

    def __len__(self) -> int:
        return len(self._losses)

    def __getitem__(self, number: int) -> Loss:  # type: ignore[override]  # no slices
        return self._losses[number]


class Follower:
    """A copy of the fleet that follows the feed, and what stands of it. Used by one thread.

    :param requests_of: asked for the requests of instances that are new or have moved
    """

    def __init__(self, conf: cfg.ConfigOpts, feed: Feed, clock: Clock, requests_of: RequestsOf) -> None:
        asked = packing(loading.load_pipeline(conf))
        self._default_zone = conf.default_availability_zone
        self.standing = Standing()
        self.room: Room | None = None
        self._fleet = CopiedFleet(asked, feed, conf.service_down_time, HostManager, clock)
        self._reader = RoomReader(asked, requests_of)
        #: Whether the last look has proved everything.
        self.is_whole = True
        #: Whether the last look could read the fleet.
        self.is_current = True
        self._amounts: dict[Kinds, Amount] = {}
        self._hardware: dict[Kinds, Hardware | None] = {}
        self._lost: Lost | None = None
        self._seen: Hashable = None
        self._anew_at = 0.0
        self._read_again_at = time.monotonic() + _READ_AGAIN_S

    def look(
        self, promised: Sequence[Tolerance], booked: Iterable[Booking] = (), shifted: Sequence[int] = ()
    ) -> Lost | None:
        """Bring everything up to date, and return what may be lost; None if nothing has changed.

        :param booked: what the scheduler has placed, and the database does not show yet
        :param shifted: losses whose plans the scheduler has changed: it takes those that stand here
        """
        self.is_current = self._fleet.follow(booked)
        if not self.is_current:
            return None
        began = time.monotonic()
        if began >= self._read_again_at:
            self._reader.forget()
            self._read_again_at = began + _READ_AGAIN_S
        lost, room, changed = self._fleet.read(lambda hosts, _state: self._read(hosts, promised))
        is_known = lost is self._lost and changed is not None
        is_open = self._is_behind or self._reader.is_open
        if is_known and changed is not None and not len(changed.rows) and not is_open and not shifted:
            return None
        if began >= self._anew_at:
            changed, self._anew_at = None, began + _ANEW_S
            self._reader.prefer_anew()
            room = dataclasses.replace(room, order=self._reader.order)
        # Until all is proved: after a failure the next look begins anew.
        self._lost = None
        decisions = Decisions(self._fleet, room, self._reader)
        self.is_whole = changed is None or not is_known
        self.standing.update(room, decisions, lost.rows, changed, LIMIT_S, began + _LOOK_S, shifted)
        self._fleet.read(lambda hosts, _state: self._reader.note(hosts))
        self.room, self._lost = room, lost
        # The number of a shape may be that of another one now.
        self._amounts, self._hardware = {}, {}
        return lost

    def has_seen(self, uuid: str, node: tuple[str, str]) -> bool:
        """Return whether the last look has found an instance on a node."""
        return self._reader.has(uuid, node)

    def amount_of(self, kinds: Kinds) -> Amount:
        """Return the demand of guests of these shapes together."""
        if kinds not in self._amounts:
            assert self.room is not None, "it has been looked at"
            vcpus, memory_mb, disk_mb = numpy.sum([self.room.shapes[each].demand for each in kinds], axis=0).tolist()
            self._amounts[kinds] = vcpus, memory_mb, disk_mb
        return self._amounts[kinds]

    def hardware_of(self, kinds: Kinds) -> Hardware | None:
        """Return the guests of these shapes, if some of them have cells or devices."""
        if kinds not in self._hardware:
            requests = [self._reader.requests[each] for each in kinds]
            self._hardware[kinds] = Hardware.of(each for each in requests if each is not None)
        return self._hardware[kinds]

    def groups_by_node(self, finding: Finding) -> dict[Node, frozenset[str]]:
        """Return, for each node where a plan puts members of groups that stay apart, or on one host, the groups' uuids."""
        assert self.room is not None, "it has been looked at"
        found: dict[Node, frozenset[str]] = {}
        groups = self.room.group_of[finding.guests]
        if (groups == NO_GROUP).all():
            return found
        for group, row in zip(groups.tolist(), finding.places.tolist(), strict=False):
            node, uuid = self.nodes[row], self._reader.hard_group(group)
            if uuid is not None and node is not None:
                found[node] = found.get(node, frozenset()) | {uuid}
        return found

    def places_of(self, finding: Finding) -> Places:
        """Return the places that a plan has for its guests."""
        room, guests = self.room, finding.guests[: len(finding.places)]
        assert room is not None, "it has been looked at"
        uuids, requests = numpy.empty(len(guests), dtype=object), numpy.empty(len(guests), dtype=object)
        uuids[:] = [room.uuids[guest] for guest in guests.tolist()]
        requests[:] = [self._reader.requests[shape] for shape in room.shape_of[guests].tolist()]
        return Places(self.nodes, uuids, finding.places, requests, room.group_of[guests] == NO_GROUP)

    @property
    def nodes(self) -> Sequence[tuple[str, str] | None]:
        """Host and node of each row of the room."""
        return self._reader.nodes

    @property
    def _is_behind(self) -> bool:
        return any(each.is_late for each in self.standing.open.values())

    def _read(self, hosts: Candidates, promised: Sequence[Tolerance]) -> tuple[Lost, Room, Changed | None]:
        room, changed = self._reader.read(hosts)
        seen = tuple(promised), hosts.epoch, self._reader.layout, hosts.column("labels").tobytes()
        if self._lost is None or seen != self._seen:
            self._seen = seen
            return Lost(promised, hosts, self._default_zone), room, changed
        return self._lost, room, changed


def _values(hosts: Candidates, label: str, rows_of: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return, by host, the value of a label, or else of the metadata of its aggregates (the smallest)."""
    found: dict[str, str] = {}
    for value, inside in sorted(
        ((each.metadata[label], each.hosts) for each in hosts.all_aggregates() if label in each.metadata), reverse=True
    ):
        found.update(dict.fromkeys(inside, value))
    domains = FailureDomains.of(hosts, label)
    for host, rows in rows_of.items():
        name = domains.names[int(domains.of_row[rows[0]])]
        if name != NOWHERE:
            found[host] = name
    return found
