# SPDX-License-Identifier: Apache-2.0
"""Virtual machines as nova's databases show them: a variant of the domain of virtual machines.

Called by the modules beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable
from typing import Any

from fleet import capacity
from fleet.objects import RequestSpec
from scheduler.compute.domain import columns
from scheduler.compute.domain.consumption import consumption
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.domain.tracked_instance import read_placed
from scheduler.compute.domain.virtual_machines import REQUESTS, VIRTUAL_MACHINES
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.domain import Domain, HostRow, Rows
from scheduler.nova import domain_columns
from scheduler.nova.cells import CrossCellWeigher
from scheduler.nova.claims import resources_of
from scheduler.nova.destination import RequestedDestinationFilter, RequestedZoneFilter
from scheduler.nova.domain_columns import CELL, NODE_UUID, TRAITS
from scheduler.nova.inventory_filters import (
    DiskInventoryFilter,
    MemoryInventoryFilter,
    ProviderFilter,
    VcpuInventoryFilter,
)
from scheduler.nova.request import NovaRequest
from scheduler.nova.rows import InstanceRow, NodeRow
from scheduler.nova.threads import IsolatedThreadsFilter
from scheduler.state.liveness import is_up, steady_until

#: Tasks of a move whose destination has claimed, or that is over.
_CLAIMED = ("resize_migrating", "resize_migrated", "resize_finish", "resize_reverting", "rebuild_spawning")
#: Tasks of a build until its claim has ended.
_BEFORE_THE_CLAIM = (None, "scheduling")
_SETTLED = ("active", "stopped", "paused", "suspended")


def _read_row(row: NodeRow) -> HostRow:
    found = columns.read_row(row)
    return found._replace(
        numbers={**found.numbers, **domain_columns.numbers(row)},
        objects={**found.objects, NODE_UUID: row.uuid},
        shared={**found.shared, **domain_columns.shared(row)},
    )


def _counted_in(row: NodeRow) -> Collection[str]:
    """Return the instances whose allocations are in the node's figures: a claim is there before its answer."""
    return row.provider.consumers if row.provider is not None else ()


def _consumption(request: RequestSpec) -> Consumption:
    """Return the amounts that one instance takes in placement: swap is disk, and extra specs may replace amounts."""
    found, amounts = consumption(request), resources_of(request)
    taken = {
        "free_ram_mb": -amounts.get("MEMORY_MB", 0),
        "free_disk_mb": -capacity.MB_PER_GB * amounts.get("DISK_GB", 0),
        "vcpus_used": amounts.get("VCPU", 0),
    }
    return dataclasses.replace(found, numbers={**found.numbers, **taken})


def _is_over(row: InstanceRow) -> bool:
    """Return True for deleted instances, and for failed ones with which nothing is being done."""
    return bool(row.deleted) or row.vm_state == "deleted" or (row.vm_state == "error" and row.task_state is None)


def _is_gone(row: InstanceRow) -> bool:
    """Return True if the instance is deleted.

    nova leaves the state ``shelved_offloaded`` until the guest of an unshelved instance runs: with a host, it is there.
    """
    return bool(row.deleted) or row.vm_state == "deleted"


def _is_counted(row: InstanceRow) -> bool:
    """Return False while nova-compute claims.

    Within its claim it writes the host into the instance's row, and then what is used into the node's row. The next states,
    of networks, disks and the guest itself, follow both.
    """
    return not (row.vm_state == "building" and row.task_state in _BEFORE_THE_CLAIM)


def _has_moved(row: InstanceRow) -> bool:
    return row.task_state in _CLAIMED or (row.task_state is None and row.vm_state in _SETTLED)


def _is_given_back(row: InstanceRow) -> bool:
    """Return False: nova creates the row of an instance without a host after the scheduler has chosen one."""
    return False


def _request_key(request: RequestSpec) -> Hashable | None:
    """A request of ``explain`` is a plain one."""
    is_restricted = isinstance(request, NovaRequest) and request.is_restricted
    return None if is_restricted else request_key(request)


def _uuid(hosts: Candidates, row: int) -> Any:
    return hosts.object(row, NODE_UUID)


def _cell_uuid(hosts: Candidates, row: int) -> Any:
    return hosts.shared(row, CELL)


NOVA_MACHINES = Domain.of(
    name="nova",
    layout=dataclasses.replace(
        VIRTUAL_MACHINES.layout,
        columns={**VIRTUAL_MACHINES.layout.columns, **domain_columns.NUMBERS},
        often_uniform=(*VIRTUAL_MACHINES.layout.often_uniform, *domain_columns.NUMBERS),
        shared={**VIRTUAL_MACHINES.layout.shared, CELL: "", TRAITS: frozenset()},
        objects=(*VIRTUAL_MACHINES.layout.objects, NODE_UUID),
        views={**VIRTUAL_MACHINES.layout.views, "uuid": _uuid, "cell_uuid": _cell_uuid},
        alternates_share=CELL,
    ),
    rows=Rows(
        read_row=_read_row,
        read_placed=read_placed,
        is_up=is_up,
        steady_until=steady_until,
        is_over=_is_over,
        is_gone=_is_gone,
        has_moved=_has_moved,
        is_given_back=_is_given_back,
        counted_in=_counted_in,
        is_counted=_is_counted,
        counted_columns=frozenset({"free_ram_mb", "free_disk_mb", "vcpus_used"}),
    ),
    requests=dataclasses.replace(
        REQUESTS,
        request_key=_request_key,
        consumption=_consumption,
    ),
    defaults=dataclasses.replace(
        VIRTUAL_MACHINES.defaults,
        # nova has no filter for zones: placement does it by aggregates. A list of filters that is copied from nova has none.
        restrictions=(RequestedDestinationFilter, ProviderFilter, RequestedZoneFilter),
        closing=(IsolatedThreadsFilter, VcpuInventoryFilter, MemoryInventoryFilter, DiskInventoryFilter),
        preferences=(CrossCellWeigher,),
    ),
    words=VIRTUAL_MACHINES.words,
)
