# SPDX-License-Identifier: Apache-2.0
"""Reads the room for ``scheduler.planning.survival`` from a copy of the fleet, and again only what has changed.

A guest is read when its host's row changes, and its request when the guest is new, has moved, or is another one. A row that
has changed is judged again for each shape. All rows are judged again where something changed that no row shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy

from fleet import errors
from fleet.objects import RequestSpec, group_rule, instance_group
from fleet.objects.whatif import Demand
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.planning.losses.guests import Guests
from scheduler.compute.planning.losses.shapes import Shapes
from scheduler.compute.tolerance import amounts
from scheduler.engine import pipeline
from scheduler.engine.hosts.candidates import Candidates
from scheduler.planning.survival.room import GONE, NO_GROUP, UNLIMITED, Changed, Group, Room, preferred

#: Returns the requests that place existing instances, by uuid, or why one cannot be read.
RequestsOf = Callable[[Sequence[str]], Mapping[str, Demand | errors.FleetError]]
_HARD = (instance_group.AFFINITY, instance_group.ANTI_AFFINITY)
_SEVERAL_NODES = "it is in a group, and hosts of this fleet have several nodes"


class RoomReader:
    """:param asked: the filters that judge the guests"""

    def __init__(self, asked: pipeline.Pipeline, requests_of: RequestsOf) -> None:
        self._asked = asked
        self._requests_of = requests_of
        #: Grows when rows get other numbers.
        self.layout = 0
        self._begin()

    def _begin(self) -> None:
        self._shapes = Shapes(self._asked)
        self._groups: dict[tuple[str, str | None], int] = {}
        #: The uuids of those whose members stay apart, or on one host.
        self._hard: dict[int, str] = {}
        self._kinds: list[Group] = []
        self._guests = Guests()
        self._unreadable: dict[int, str] = {}
        #: The requests of guests whose groups have rules over labels among their members.
        self.ruled: dict[int, RequestSpec] = {}
        self._keys: list[tuple[str, str] | None] = []
        #: The rows of the nodes.
        self.row_of: dict[tuple[str, str], int] = {}
        #: Rows with guests whose requests the conductor has not returned yet.
        self._again: set[int] = set()
        self._free = numpy.zeros((0, 3), dtype=numpy.int64)
        self._order = numpy.array([], dtype=int)
        self._names: list[str] = []
        #: By host, the nodes of those that have several.
        self.several: dict[str, list[tuple[str, str]]] = {}
        self._version = self._epoch = -1

    @property
    def requests(self) -> Sequence[RequestSpec | None]:
        """Return, for each shape of the room, the request of one of its guests, without its group."""
        return self._shapes.requests

    @property
    def nodes(self) -> Sequence[tuple[str, str] | None]:
        """Host and node of each row; None: the row is empty."""
        return self._keys

    @property
    def is_open(self) -> bool:
        """Return True if hosts that have not changed may take other guests than before."""
        return self._shapes.any_open

    def has(self, uuid: str, key: tuple[str, str]) -> bool:
        """Return whether the newest reading has found an instance on a node."""
        row = self.row_of.get(key)
        return row is not None and uuid in self._guests.on(row)

    @property
    def order(self) -> numpy.ndarray:
        """The rows in the order in which plans prefer them."""
        return self._order

    def prefer_anew(self) -> None:
        """Let plans prefer the hosts that have the most free by the last reading."""
        self._order = preferred(self._free)

    def forget(self) -> None:
        """Read all requests again next time: a group, or the image of a rebuild, may change without the row of a guest."""
        self._begin()

    def note(self, hosts: Candidates) -> None:
        """Take the rows as they are now for known: trials have booked on them, and released."""
        self._version = hosts.version

    def read(self, hosts: Candidates) -> tuple[Room, Changed | None]:
        """Return the room, and what has changed since the last time; None if that is everything.

        If the requests cannot be read, the next call reads the same changes again.
        """
        rows = self._changed_rows(hosts)
        guests = self._guests
        there = {row: _on(hosts, self._keys[row]) for row in rows.tolist()}
        left, arrived = guests.missing(there), guests.arriving(there)
        requests = self._requests_of([each.uuid for _row, each in arrived]) if arrived else {}
        try:
            return self._taken(hosts, rows, left, [(row, each, requests.get(each.uuid)) for row, each in arrived])
        except Exception:
            # Nothing is known for sure now: a filter of a user has failed.
            self._begin()
            raise

    def _taken(
        self,
        hosts: Candidates,
        rows: numpy.ndarray,
        left: Mapping[int, int],
        arrived: Sequence[tuple[int, TrackedInstance, Demand | errors.FleetError | None]],
    ) -> tuple[Room, Changed | None]:
        """Apply what has changed to the guests and the room.

        :param left: guests that have left these rows; ``arrived``: rows, and what has come there
        """
        guests = self._guests
        changed, groups = {*left.values()}, set(guests.group_of[[*left]].tolist())
        for slot in left:
            guests.remove(slot)
            self._forget(slot)
        whole = self._epoch != hosts.epoch
        gained = self._shapes.follow(hosts, None if whole else rows)
        self._again = set()
        for row, each, asked in arrived:
            if asked is None and each.is_only_booked:
                # No conductor can say what it is. It takes its room, and has no place in a plan yet.
                self._again.add(row)
                continue
            slot = guests.put(row, each)
            self._describe(hosts, slot, asked)
            if asked is None:
                guests.doubt(slot)
                self._again.add(row)
            changed.add(row)
            groups.add(int(guests.group_of[slot]))
        self._shapes.drop(guests.unused_shapes())
        free = amounts.free(self._asked, hosts if whole else hosts.subset(rows))
        better = whole or bool(left) or gained or bool((free > self._free[rows]).any())
        if whole:
            self._free = free
        else:
            self._free[rows] = free
        if len(self._order) != len(self._free):
            self.prefer_anew()
        self._version, self._epoch = hosts.version, hosts.epoch
        room = Room(
            hosts=self._names,
            free=self._free,
            uuids=guests.uuids,
            host_of=guests.host_of,
            shape_of=guests.shape_of,
            group_of=guests.group_of,
            shapes=self._shapes.found,
            groups=self._kinds,
            unreadable=self._unreadable,
            ruled=self.ruled,
            order=self._order,
            index=guests,
        )
        return room, None if whole else Changed(
            rows, numpy.array(sorted(changed), dtype=int), groups - {NO_GROUP}, better
        )

    def _changed_rows(self, hosts: Candidates) -> numpy.ndarray:
        """Return the rows that have changed, with their keys in ``_keys``; all rows if some have other numbers."""
        present, every = hosts.present(), numpy.arange(len(hosts))
        rows = numpy.union1d(hosts.changed_rows(self._version), [*self._again]).astype(int)
        rows = rows if len(hosts) == len(self._keys) else every
        keys = {row: hosts.key(row) if present[row] else None for row in rows.tolist()}
        if len(hosts) == len(self._keys) and all(self._keys[row] == key for row, key in keys.items()):
            return rows
        now = [hosts.key(row) if present[row] else None for row in every.tolist()]
        row_of = {key: row for row, key in enumerate(now) if key is not None}
        moved = [GONE if key is None else row_of.get(key, GONE) for key in self._keys]
        for slot in self._guests.renumber(moved):
            self._forget(slot)
        self._keys, self._epoch, self.layout = now, -1, self.layout + 1
        self.row_of = row_of
        self._names = ["" if key is None else key[0] for key in now]
        nodes: dict[str, list[tuple[str, str]]] = {}
        for key in row_of:
            nodes.setdefault(key[0], []).append(key)
        self.several = {host: each for host, each in nodes.items() if len(each) > 1}
        self._order = numpy.array([], dtype=int)
        return every

    def _forget(self, slot: int) -> None:
        self._unreadable.pop(slot, None)
        self.ruled.pop(slot, None)

    def _describe(self, hosts: Candidates, slot: int, asked: Demand | errors.FleetError | None) -> None:
        """Note the shape and the group of a guest, or why its request cannot be read."""
        guests = self._guests
        request, shape, why = None, self._shapes.nothing, "it is gone"
        try:
            if isinstance(asked, Demand):
                request, why = _request(asked), ""
                shape = self._shapes.of(request, hosts)
            elif asked is not None:
                why = asked.message
        except errors.FleetError as failure:
            request, why = None, failure.message
        group = NO_GROUP if request is None else self._group(request)
        if self.several and group != NO_GROUP:
            why = _SEVERAL_NODES
        if why:
            self._unreadable[slot] = why
        elif request is not None and has_open_rules(request):
            self.ruled[slot] = request
        guests.describe(slot, shape, group)

    def hard_group(self, group: int) -> str | None:
        """Return the uuid of a group of the room if its members stay apart, or on one host; None otherwise."""
        return self._hard.get(group)

    def _group(self, request: RequestSpec) -> int:
        policy = next((each for each in _HARD if each in request.group_policies), None)
        if request.group_uuid is None or (policy is None and not has_open_rules(request)):
            return NO_GROUP
        key = (request.group_uuid, policy)
        if key not in self._groups:
            self._groups[key] = len(self._kinds)
            if policy is not None:
                self._hard[len(self._kinds)] = request.group_uuid
            most = {instance_group.AFFINITY: None, None: UNLIMITED}.get(policy, request.group_max_server_per_host)
            self._kinds.append(Group(most))
        return self._groups[key]


def _on(hosts: Candidates, key: tuple[str, str] | None) -> dict[str, TrackedInstance]:
    """The instances of a node."""
    if key is None:
        return {}
    there = hosts.instances_by_host().get(key[0], {})
    return {uuid: each for uuid, each in there.items() if each.node == key[1]}


def _request(demand: Demand) -> RequestSpec:
    request = RequestSpec.from_wire(demand.request_spec, demand.filter_properties)
    return dataclasses.replace(request, force_hosts=(), force_nodes=())


def has_open_rules(request: RequestSpec) -> bool:
    """Return True if a hard rule of the request's group relates the domains of its members to each other."""
    return any(rule.is_hard and rule.policy in group_rule.AMONG_MEMBERS for rule in request.group_rules)
