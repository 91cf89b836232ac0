# SPDX-License-Identifier: Apache-2.0
"""Virtual machines as nova's databases show them: a variant of the domain of virtual machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

from fleet.objects import RequestSpec
from scheduler.compute.domain import columns
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.domain import HostRow
from scheduler.nova.destination import RequestedDestinationFilter
from scheduler.nova.request import NovaRequest
from scheduler.nova.rows import NodeRow

CELL, NODE_UUID = "cell", "node_uuid"
#: Tasks of a move whose destination has claimed, or that is over.
_CLAIMED = ("resize_migrating", "resize_migrated", "resize_finish", "resize_reverting", "rebuild_spawning")
_SETTLED = ("active", "stopped", "paused", "suspended")


def _read_row(row: NodeRow) -> HostRow:
    found = columns.read_row(row)
    return found._replace(objects={**found.objects, NODE_UUID: row.uuid}, shared={**found.shared, CELL: row.cell_uuid})


def _is_over(row: Any) -> bool:
    """Return True for deleted instances, and for failed ones with which nothing is being done."""
    return bool(row.deleted) or row.vm_state == "deleted" or (row.vm_state == "error" and row.task_state is None)


def _is_gone(row: Any) -> bool:
    return bool(row.deleted) or row.vm_state in ("deleted", "shelved_offloaded")


def _has_moved(row: Any) -> bool:
    return row.task_state in _CLAIMED or (row.task_state is None and row.vm_state in _SETTLED)


def _is_given_back(row: Any) -> bool:
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


NOVA_MACHINES = dataclasses.replace(
    VIRTUAL_MACHINES,
    name="nova",
    shared={**VIRTUAL_MACHINES.shared, CELL: ""},
    objects=(*VIRTUAL_MACHINES.objects, NODE_UUID),
    views={**VIRTUAL_MACHINES.views, "uuid": _uuid, "cell_uuid": _cell_uuid},
    read_row=_read_row,
    is_over=_is_over,
    is_gone=_is_gone,
    has_moved=_has_moved,
    is_given_back=_is_given_back,
    request_key=_request_key,
    restrictions=(RequestedDestinationFilter,),
)
