# SPDX-License-Identifier: Apache-2.0
"""Builds a hypothetical fleet: a copy of the database's contents with some hosts added, removed or changed.

Called by :mod:`scheduler.planning.copied_fleet`, and by the planning modules of both domains.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Generic, TypeVar, cast

from fleet import errors
from fleet.db.feed.feed import Changes, Shown
from fleet.json_codec import JSONMapping
from fleet.objects import numa
from fleet.objects.feed_rows import ShownNode, ShownPlace, ShownThing
from fleet.objects.whatif import Change

PlaceT = TypeVar("PlaceT", bound=ShownPlace)
ThingT = TypeVar("ThingT", bound=ShownThing)
RowT = TypeVar("RowT")


@dataclasses.dataclass(frozen=True)
class Places(Generic[PlaceT]):
    """The functions that change places of a domain: compute nodes, or storage pools.

    :param emptied: takes a row and a host's name; returns the columns of an empty place like this row on that host
    :param overcommitted: takes the ratios by resource; returns the columns that set them
    """

    emptied: Callable[[PlaceT, str], JSONMapping]
    overcommitted: Callable[[Mapping[str, float]], JSONMapping]


def hypothetical(state: Changes[PlaceT, ThingT], change: Change, places: Places[PlaceT]) -> Changes[PlaceT, ThingT]:
    """Return a copy of ``state`` with the change.

    :param state: the whole state, as the change feed reports it
    :raises errors.NotFound: a host that is to go, or to be copied, is not there
    """
    known = {node.host for node in state.nodes}
    for host in [*change.without_hosts, *([change.like] if change.more_hosts else [])]:
        if host not in known:
            raise errors.NotFound(kind="Host", name=host)
    gone = set(change.without_hosts)
    ratios = places.overcommitted(change.ratios)
    nodes = [changed(node, **ratios) for node in state.nodes if node.host not in gone]
    services = [service for service in state.services if service.host not in gone]
    more = [f"{change.like}-whatif-{number}" for number in range(1, change.more_hosts + 1)]
    like = [node for node in state.nodes if node.host == change.like]
    nodes += [changed(node, host=host, **{**places.emptied(node, host), **ratios}) for host in more for node in like]
    services += [
        types.SimpleNamespace(
            host=host,
            disabled=False,
            disabled_reason=None,
            forced_down=False,
            last_seen_up=newest_heartbeat(state),
            deleted=False,
        )
        for host in more
    ]
    aggregates = [
        dataclasses.replace(each, hosts=[*each.hosts, *more]) if change.like in each.hosts else each
        for each in state.aggregates
    ]
    instances = [each for each in state.instances if each.host not in gone]
    return dataclasses.replace(
        state, nodes=nodes, services=services, aggregates=aggregates, instances=instances, heartbeats=()
    )


def _emptied(row: ShownNode, host: str) -> dict[str, object]:
    """The columns of a host like this one that has just been bought."""
    topology = numa.HostTopology.from_wire(row.numa_topology)
    return {
        "hypervisor_hostname": host,
        "vcpus_used": row.reserved_vcpus,
        "free_ram_mb": row.memory_mb - row.reserved_memory_mb,
        "local_gb_used": row.reserved_disk_gb,
        "free_disk_gb": row.local_gb - row.reserved_disk_gb,
        "disk_available_least": None,
        "running_vms": 0,
        "io_workload": 0,
        "failed_builds": 0,
        "numa_topology": topology.emptied().to_wire() if topology else None,
        "pci_stats": row.pci_device_pools,
    }


NODES = Places(_emptied, lambda ratios: {f"{resource}_allocation_ratio": ratio for resource, ratio in ratios.items()})


def changed(row: RowT, **columns: object) -> RowT:
    """Return a row of the feed with some columns changed."""
    return cast("RowT", ChangedRow(row, **columns))


class ChangedRow:
    """Use :func:`changed`, which keeps the type of the row."""

    def __init__(self, row: object, **changed: object) -> None:
        # Not a chain of rows: each link would cost a call a column.
        earlier = vars(row) if isinstance(row, ChangedRow) else {"_row": row}
        vars(self).update(earlier, **changed)

    def __getattr__(self, name: str) -> object:
        return getattr(self._row, name)


def newest_heartbeat(state: Changes[ShownPlace, ShownThing]) -> datetime | None:
    """The time at which the copy stands still."""
    return max((each.last_seen_up for each in state.services if each.last_seen_up), default=None)


class FixedFeed:
    """A feed that returns everything at the first read, and no change afterwards."""

    def __init__(self, state: Shown) -> None:
        self._state = dataclasses.replace(state, full=True, generation=max(state.generation, 1))

    def read(self, since: int) -> Shown:
        return self._state if since == 0 else Changes(self._state.generation)

    def read_host(self, host: str) -> Shown:
        raise NotImplementedError
