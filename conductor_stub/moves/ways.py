# SPDX-License-Identifier: Apache-2.0
"""The ways in which hosts move running guests, from their reports.

Called for live migrations, drains, balancing and maintenance. Two hosts move guests to each other if they report the
same *way*. A guest with volumes, or with claimed cells and CPUs, needs hosts on both sides that also *take* these.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

from conductor_stub.moves.processors import Processors
from conductor_stub.steps import reach
from fleet import errors, move_states, states
from fleet.db.engine.database import Connection, Transaction
from fleet.db.hosts import hosts
from fleet.db.instances import instances
from fleet.db.tables.instances import RequestedInstance
from fleet.db.upkeep import removal
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject
from fleet.objects import host_report

_COLD = "migrate it without --live"
#: Hosts that are looked at before all of the fleet are: nearly always one of them takes a guest.
_FEW = 20
#: Key of a node's ``stats`` in which source and destination must agree.
_REACHED_BY: Mapping[str, str] = {
    move_states.RESIZE: host_report.DISKS,
    move_states.EVACUATION: host_report.SHARED,
}
#: Power states of a guest that no hypervisor migrates. NOSTATE is none of them: drivers that know no states report it.
_NOT_RUNNING = (states.PAUSED, states.SHUTDOWN, states.CRASHED, states.SUSPENDED)
#: What a guest has, by what hosts must take.
_PARTS = {host_report.TAKES_CELLS: "NUMA cells, pinned CPUs or huge pages", host_report.TAKES_VOLUMES: "volumes"}


class Ways:
    """Reads each report once.

    :param volumes: by instance, the names of its volumes; read when it is asked for if not given
    :param within: only these hosts take guests
    """

    def __init__(
        self,
        connection: Transaction | Connection,
        volumes: Mapping[str, Sequence[str]] | None = None,
        within: Collection[str] | None = None,
    ) -> None:
        self._connection = connection
        self._within = within
        self._volumes = volumes
        self._volumes_of = functools.cache(self._find_volumes)
        self._reported = functools.cache(functools.partial(hosts.stat_of, connection))
        self._takers = functools.cache(self._find_takers)
        self._lacking = functools.cache(self._find_lacking)
        self._processors = Processors(connection, self._reported, within)
        self._apart = functools.cache(self._find_apart)
        self._first = functools.cache(self._find_first)

    @functools.cached_property
    def _of_all(self) -> list[tuple[str, str, frozenset[str]]]:
        """The host, the way, and the kinds of guests that it takes, of each node."""
        takes = dict(hosts.stats_of_all(self._connection, host_report.LIVE_TAKES, self._within))
        found = hosts.stats_of_all(self._connection, host_report.LIVE, self._within)
        return [(host, way or "", _parts(takes.get(host))) for host, way in found]

    def volumes_of(self, row: RequestedInstance) -> Sequence[str]:
        """Return the names of its volumes."""
        return self._volumes_of(row.uuid)

    def _find_volumes(self, uuid: str) -> Sequence[str]:
        if self._volumes is None:
            return [each.volume_name for each in attachments.of_instances(self._connection, [uuid])]
        return self._volumes.get(uuid, ())

    def _needs(self, row: RequestedInstance) -> frozenset[str]:
        """Return the kinds of parts that hosts must take."""
        cells = {host_report.TAKES_CELLS} if row.claimed_numa_topology else set()
        return frozenset(cells | ({host_report.TAKES_VOLUMES} if self.volumes_of(row) else set()))

    def takers(self, row: RequestedInstance) -> frozenset[str]:
        """Return the other hosts that take the running guest."""
        return self._reached(row) - self._processors.lacking(row.host, row.node)

    def _reached(self, row: RequestedInstance) -> frozenset[str]:
        """Return the other hosts that take the running guest if they have its processor, which the scheduler compares."""
        found = self._takers(row.host, row.node, self._needs(row))
        return found - self.lacking(row) if found else found

    def lacking(self, row: RequestedInstance) -> frozenset[str]:
        """Return the hosts that do not reach all volumes of the instance."""
        wanted = reach.needed(self._connection, [row.uuid]) if self.volumes_of(row) else ()
        return self._lacking(frozenset(each.machine for each in wanted)) if wanted else frozenset()

    @functools.cached_property
    def _reports(self) -> list[tuple[str, str | None]]:
        return reach.reports(self._connection, self._within)

    def _find_lacking(self, machines: frozenset[str]) -> frozenset[str]:
        return frozenset(reach.among(self._reports, [reach.Lacking("", each) for each in machines]))

    def _find_takers(self, host: str | None, node: str | None, needs: frozenset[str]) -> frozenset[str]:
        way = self._reported(host, node, host_report.LIVE)
        if not way or not needs <= _parts(self._reported(host, node, host_report.LIVE_TAKES)):
            return frozenset()
        return frozenset(name for name, other, takes in self._of_all if other == way and needs <= takes) - {host}

    def _is_taken(self, row: RequestedInstance) -> bool:
        """Return True if another host takes the running guest."""
        way = self._reported(row.host, row.node, host_report.LIVE) or ""
        is_near = self._within is None and bool(self._first(way).takers(row))
        return is_near or bool(self.takers(row))

    def _find_first(self, way: str) -> Ways:
        few = hosts.reporting(self._connection, host_report.LIVE, way, _FEW)
        return Ways(self._connection, self._volumes, few)

    def others(self, row: RequestedInstance) -> list[str]:
        """Return the hosts that do not take the running guest, in their order.

        Those that lack its processor are not among them: the scheduler's filter says what each of them lacks.
        """
        return sorted({host for host, _way, _takes in self._of_all} - self._reached(row))

    def apart(self, row: RequestedInstance, kind: str) -> Sequence[str] | None:
        """Return the hosts that the disks of the guest cannot reach, or do not have already; None: they reach no other.

        :param kind: of the move: a resize or an evacuation
        """
        return self._apart(row.host, row.node, kind)

    def _find_apart(self, host: str | None, node: str | None, kind: str) -> Sequence[str] | None:
        key = _REACHED_BY[kind]
        place = self._reported(host, node, key)
        if place:
            return hosts.reporting_another(self._connection, key, place)
        return None if place is not None and kind == move_states.RESIZE else ()

    def obstacle(self, row: RequestedInstance) -> str:
        """Return why a guest cannot leave its host while it runs; "" if it can. It is the end of a sentence."""
        if row.vm_state == states.ACTIVE and row.power_state in _NOT_RUNNING:
            return f"has a guest that does not run (its power state is {states.POWER_NAMES[row.power_state]})"
        if row.claimed_pci_devices:
            return "has PCI devices of its host, which a running guest keeps"
        if not self._reported(row.host, row.node, host_report.LIVE):
            return f"is on host {row.host}, which does not migrate running guests"
        stay = self._needs(row) - _parts(self._reported(row.host, row.node, host_report.LIVE_TAKES))
        if stay:
            return f"has {self._named(row, stay)}, with which host {row.host} migrates no running guests"
        if self._is_taken(row):
            return ""
        needs = self._needs(row)
        beside = f" with its {self._named(row, needs)}" if needs else ""
        if reached := self._reached(row):
            one = min(reached)
            lacks = f"{one} {self._processors.missing(row.host, row.node, one)}"
            return f"sees the processor of host {row.host}, and no other host{beside} has all its features ({lacks})"
        return f"is on host {row.host}, and no other host takes its running guests{beside}"

    def cpu_properties(self, row: RequestedInstance) -> JSONObject:
        """Return the filter property with the processor that the running guest sees; empty if any host has what it needs."""
        cpu = self._processors.seen(row.host, row.node)
        return {"guest_cpu": dataclasses.asdict(cpu)} if cpu is not None else {}

    def refusal(self, row: RequestedInstance, host: str) -> str:
        """Return why a host does not take the running guest; "" if it does. It is the end of a sentence about the host."""
        if host in self.takers(row):
            return ""
        if host in self._reached(row):
            missing = self._processors.missing(row.host, row.node, host)
            return f"which {missing} of the processor that the guest sees on {row.host}"
        return f"which does not take running guests of {row.host}"

    def _named(self, row: RequestedInstance, parts: Collection[str]) -> str:
        if parts == {host_report.TAKES_VOLUMES}:
            return removal.few(list(self.volumes_of(row)), "volume")
        return " and ".join(_PARTS[each] for each in sorted(parts))


def _parts(reported: str | None) -> frozenset[str]:
    return frozenset((reported or "").split(",")) - {""}


def obstacles(connection: Transaction | Connection, uuids: Sequence[str]) -> dict[str, str]:
    """Return, by uuid, why the guests of these instances cannot leave their hosts while they run; "" where one can.

    Instances that do not exist are left out. The reason is the end of a sentence about the instance.
    """
    rows = instances.of_uuids(connection, uuids)
    ways = of_rows(connection, rows)
    return {row.uuid: ways.obstacle(row) for row in rows}


def of_rows(
    connection: Transaction | Connection, rows: Sequence[RequestedInstance], within: Collection[str] | None = None
) -> Ways:
    """Return the ways of these instances, whose volumes are read together. :param within: only these hosts take them"""
    volumes = collections.defaultdict[str, list[str]](list)
    for each in attachments.of_instances(connection, [row.uuid for row in rows]):
        volumes[each.instance_uuid].append(each.volume_name)
    return Ways(connection, volumes, within)


def require_able(tx: Transaction, row: RequestedInstance, destination: str | None) -> None:
    """:raises errors.Conflict: errors.InvalidInput: the guest cannot leave its host while it runs"""
    obstacle = Ways(tx).obstacle(row)
    if obstacle:
        raise errors.Conflict(kind="Instance", name=row.name, reason=f"{obstacle}: {_COLD}")
    if destination is not None and (refusal := Ways(tx, within=[destination]).refusal(row, destination)):
        raise errors.InvalidInput(field="host", reason=f"is {destination}, {refusal}")
