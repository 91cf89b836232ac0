# SPDX-License-Identifier: Apache-2.0
"""The hosts as one request sees them: the table, and on top of it what this request has picked so far."""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy

from fleet.hardware.node import Hardware
from fleet.objects import Aggregate
from scheduler.compute.host_state import DEFAULTS, Capabilities, HostState, RowState
from scheduler.engine.claim_limits import ClaimLimits
from scheduler.engine.consumption import HARDWARE, Consumption
from scheduler.engine.host_table import PRESENT, Key
from scheduler.engine.instance_index import TrackedInstance
from scheduler.engine.inventory import Inventory, Work


class Candidates:
    """Rows of the inventory for a filter or weigher to judge; ``now`` is the decision's time in epoch seconds.

    Arrays that it gives, and masks that it wants, have one element per row considered: all rows of the table, free
    ones too (they are not present, so what is said of them does not matter), or those of :meth:`subset`.
    """

    def __init__(
        self, inventory: Inventory, now: float, rows: numpy.ndarray | None = None, work: Work | None = None
    ) -> None:
        self._inventory = inventory
        self._table = inventory.table
        self._work = work or Work()
        self._rows = rows
        self.now = now

    def __len__(self) -> int:
        return self._table.size if self._rows is None else len(self._rows)

    def subset(self, rows: numpy.ndarray) -> Candidates:
        """The same request's view of these rows of the table only."""
        return Candidates(self._inventory, self.now, rows, self._work)

    def with_one_more(self, rows: numpy.ndarray, growing: numpy.ndarray, consumption: Consumption) -> Candidates:
        """These rows of the table, as they would be with one instance more on the growing ones; nothing is changed."""
        work = self._work.with_one_more(self._table, growing, consumption)
        return Candidates(self._inventory, self.now, rows, work)

    def whole(self) -> Candidates:
        """The same request's view of all rows of the table."""
        return Candidates(self._inventory, self.now, None, self._work)

    @property
    def version(self) -> int:
        """Of the table: it grows with every change of a row."""
        return self._table.version

    @property
    def epoch(self) -> int:
        """It grows when something changes that may concern every row, such as an aggregate's metadata."""
        return self._inventory.epoch

    def changed_rows(self, version: int) -> numpy.ndarray:
        """Rows of the table that have changed after that version of it, each once, in their order."""
        return self._table.changed_rows(version)

    @property
    def rows(self) -> numpy.ndarray:
        """The table's row number of each element."""
        return numpy.arange(self._table.size) if self._rows is None else self._rows

    # -- what filters and weighers ask ------------------------------------------------------------------------------

    def column(self, name: str) -> numpy.ndarray:
        """One number of every candidate. Do not write."""
        column = self._work.columns.get(name)
        if column is None:
            column = self._table.column(name)
        return column if self._rows is None else column[self._rows]

    def uniform(self, name: str) -> float | None:
        """The number that every host has in this column, if that is known without looking; see the table."""
        return None if name in self._work.columns else self._table.uniform(name)

    def present(self) -> numpy.ndarray:
        return self.column(PRESENT)

    def by_aggregates(self, judge: Callable[[Sequence[Aggregate]], Any], dtype: type = bool) -> numpy.ndarray:
        """``judge`` called once per distinct set of aggregates, its answer spread over the candidates."""
        sets = self._table.interned["aggregates"].values
        numbers = self.column("aggregates")
        answers: numpy.ndarray = numpy.array([judge(self._resolve(ids)) for ids in sets], dtype=dtype)
        return answers[numbers]

    def by_capabilities(self, judge: Callable[[Capabilities], Any], dtype: type = bool) -> numpy.ndarray:
        """``judge`` called once per distinct kind of host, its answer spread over the candidates."""
        kinds = self._table.interned["capabilities"].values
        answers: numpy.ndarray = numpy.array([judge(kind or _UNKNOWN) for kind in kinds], dtype=dtype)
        return answers[self.column("capabilities")]

    def by_number(self, name: str, judge: Callable[[Any], Any], dtype: type = bool) -> numpy.ndarray:
        """``judge`` called once per distinct value of a column, its answer spread over the candidates."""
        values, places = numpy.unique(self.column(name), return_inverse=True)
        kind = self._table.kinds[name]
        answers: numpy.ndarray = numpy.array([judge(kind(value)) for value in values], dtype=dtype)
        return answers[places]

    def by_rare(self, name: str, judge: Callable[[Any], Any], dtype: type = bool) -> numpy.ndarray:
        """``judge`` called for every host that has something rare, and once, with what is empty, for the others."""
        known = self._rare(name)
        empty = judge(_RARE_LISTS.get(name, type(None))())
        answers = [judge(known[row]) if row in known else empty for row in self.rows.tolist()]
        return numpy.array(answers, dtype=dtype)

    def narrowed(self, mask: numpy.ndarray, name: str, judge: Callable[[Any], bool]) -> numpy.ndarray:
        """``mask`` less the hosts whose rare value ``judge`` refuses, or who have none; only these are looked at.

        Hosts that share one value are judged once.
        """
        known = self._rare(name)
        verdicts: dict[int, bool] = {}
        passed = numpy.zeros(len(self), dtype=bool)
        positions = numpy.flatnonzero(mask)
        for position, row in zip(positions.tolist(), self.rows[positions].tolist(), strict=True):
            value = known.get(row)
            if value is None:
                continue
            verdict = verdicts.get(id(value))
            if verdict is None:
                verdict = verdicts[id(value)] = judge(value)
            passed[position] = verdict
        return passed

    def by_host(self, judge: Callable[[HostState], Any], dtype: type = bool) -> numpy.ndarray:
        """``judge`` called for every host. For what nothing cheaper can answer."""
        answers: numpy.ndarray = numpy.zeros(len(self), dtype=dtype)
        for position in numpy.flatnonzero(self.present()).tolist():
            answers[position] = judge(self.state(int(self.rows[position])))
        return answers

    def storage(self, name: str) -> str | None:
        """How an attribute of the hosts is kept: ``number``, ``capability``, ``rare``, ``host``; None: there is none."""
        if name in _VIEWS or name in _PLAIN:
            return "host"
        if name in self._table.kinds and name != PRESENT:
            return "number"
        if name in Capabilities._fields:
            return "capability"
        return "rare" if name in DEFAULTS or name in _RARE_LISTS else None

    def in_aggregates(self, key: str) -> bool:
        """Whether any aggregate's metadata has this key: if not, nobody's need be looked at."""
        return key in self._inventory.metadata_keys()

    def instances_by_host(self) -> Mapping[str, Mapping[str, TrackedInstance]]:
        """All that the database and the bookings show; picks of this request are not among them."""
        return self._inventory.instances.by_host()

    def only(self, rows: Iterable[int]) -> numpy.ndarray:
        """A mask that lets just these rows of the table through."""
        if self._rows is None:
            mask = numpy.zeros(self._table.size, dtype=bool)
            mask[list(rows)] = True
            return mask
        wanted = set(rows)
        return numpy.fromiter((row in wanted for row in self._rows.tolist()), dtype=bool, count=len(self._rows))

    def counted(self, amounts: Mapping[str, float]) -> numpy.ndarray:
        """The amount given for each candidate's host, 0 for hosts that are not in ``amounts``."""
        spread = numpy.zeros(self._table.size)
        for host, amount in amounts.items():
            spread[list(self._table.rows_of_host(host))] = amount
        return spread if self._rows is None else spread[self._rows]

    def rows_of_hosts(self, hosts: Iterable[str]) -> list[int]:
        return [row for host in hosts for row in self._table.rows_of_host(host)]

    def rows_of_hosts_any_case(self, hosts: Iterable[str]) -> list[int]:
        """Looks at every host: for requests that name hosts by hand only."""
        wanted = {host.lower() for host in hosts}
        return [row for row, key in enumerate(self._table.keys) if key and key[0].lower() in wanted]

    def rows_of_nodes(self, nodes: Iterable[str]) -> list[int]:
        """Looks at every host, too."""
        wanted = set(nodes)
        return [row for row, key in enumerate(self._table.keys) if key and key[1] in wanted]

    def row_of(self, key: tuple[str, str | None]) -> int | None:
        return self._table.row_of(key)  # type: ignore[arg-type]  # a node that is None is nobody's

    def host_of(self, instance_uuid: str) -> str | None:
        """Where an instance is: picked in this request, booked, or as the database shows."""
        for pick in self._work.picks:
            if pick.uuid == instance_uuid:
                return pick.host
        return self._inventory.instances.host_of(instance_uuid)

    def hosts_of(self, instance_uuids: Iterable[str]) -> list[str]:
        """The host of each of these instances that is on one, and of every pick of this request."""
        picked = {pick.uuid for pick in self._work.picks}
        host_of = self._inventory.instances.host_of
        known = [host_of(uuid) for uuid in instance_uuids if uuid not in picked]
        return [host for host in known if host is not None] + [pick.host for pick in self._work.picks]

    # -- one host ---------------------------------------------------------------------------------------------------

    def key(self, row: int) -> Key:
        key = self._table.keys[row]
        assert key is not None
        return key

    def state(self, row: int) -> HostState:
        """The row in nova's form; the same object each time within a request."""
        state = self._work.states.get(row)
        if state is None:
            state = self._work.states[row] = RowState(self, row)
        return state

    def rare(self, row: int, name: str) -> Any:
        """What few hosts have; None if this one has not."""
        return self._rare(name).get(row)

    @property
    def limits(self) -> ClaimLimits:
        """What claims on these hosts must stay under, as far as filters in nova's form have written it."""
        return self._work.limits

    def value(self, row: int, name: str) -> Any:
        column = self._work.columns.get(name)
        value = (self._table.column(name) if column is None else column)[row]
        return self._table.kinds[name](value)

    def attribute(self, row: int, name: str) -> Any:
        """What :class:`HostState` has under this name."""
        if name in _VIEWS:
            return _VIEWS[name](self, row)
        if name in self._table.kinds:
            return self.value(row, name)
        if name in Capabilities._fields:
            shared = self._table.interned["capabilities"].values[self._table.column("capabilities")[row]]
            return (shared or _UNKNOWN).shown(name)
        if name in _RARE_LISTS:
            # A copy: what a plugin writes must not be there for the next request.
            return _RARE_LISTS[name](self._table.rare.get(name, {}).get(row, ()))
        if name in DEFAULTS:
            return self._table.rare.get(name, {}).get(row)
        raise AttributeError(f"HostState has no attribute {name!r}")

    # -- what the decision does -------------------------------------------------------------------------------------

    def pick(self, row: int, instance_uuid: str, consumption: Consumption) -> None:
        """Count an instance on this row for the rest of the request."""
        host, node = self.key(row)
        self._work.picks.append(TrackedInstance(instance_uuid, host, node))
        self._work.take(self._table, row, consumption)

    # -- views ------------------------------------------------------------------------------------------------------

    def _rare(self, name: str) -> Mapping[int, Any]:
        """By row, with this request's picks counted."""
        changed = self._work.rare.get(name)
        return self._table.rare.get(name, {}) if changed is None else changed

    def _numa_topology(self, row: int) -> dict[str, Any] | None:
        hardware: Hardware | None = self.rare(row, HARDWARE)
        return hardware.topology.to_wire() if hardware and hardware.topology else None

    def _pci_stats(self, row: int) -> list[dict[str, Any]] | None:
        hardware: Hardware | None = self.rare(row, HARDWARE)
        return [pool.to_wire() for pool in hardware.pools] if hardware and hardware.pools else None

    def _resolve(self, ids: tuple[int, ...] | None) -> list[Aggregate]:
        known = self._inventory.aggregates
        return [known[number] for number in ids or () if number in known]

    def _aggregates(self, row: int) -> list[Aggregate]:
        return self._resolve(self._table.interned["aggregates"].values[self._table.column("aggregates")[row]])

    def _instances(self, row: int) -> dict[str, TrackedInstance]:
        host = self.key(row)[0]
        picked = {pick.uuid: pick for pick in self._work.picks if pick.host == host}
        return {**self._inventory.instances.on_host(host), **picked}

    def _service(self, row: int) -> Mapping[str, Any]:
        host = self.key(row)[0]
        return types.MappingProxyType(
            {
                "host": host,
                "binary": "fleet-compute",
                "topic": "compute",
                "disabled": self.value(row, "disabled"),
                "disabled_reason": self._inventory.disabled_reasons.get(host),
                "forced_down": self.value(row, "forced_down"),
                "last_seen_up": _time(self.value(row, "last_seen_up")),
            }
        )

    def _updated(self, row: int) -> datetime.datetime | None:
        return _time(self.value(row, "updated"))

    def _host_ip(self, row: int) -> str | None:
        return self._table.column("host_ip")[row]


def _time(epoch_s: float) -> datetime.datetime | None:
    """Naive UTC, as nova's; 0 is never."""
    if not epoch_s:
        return None
    return datetime.datetime.fromtimestamp(epoch_s, datetime.UTC).replace(tzinfo=None)


_UNKNOWN = Capabilities()
_RARE_LISTS: dict[str, type] = {"metrics": list, "stats": dict}
#: What a host state has besides the table's columns.
_PLAIN = ("host", "nodename", "hypervisor_hostname", "limits")
_VIEWS: dict[str, Callable[[Candidates, int], Any]] = {
    "aggregates": Candidates._aggregates,
    "instances": Candidates._instances,
    "service": Candidates._service,
    "updated": Candidates._updated,
    "host_ip": Candidates._host_ip,
    "numa_topology": Candidates._numa_topology,
    "pci_stats": Candidates._pci_stats,
}
