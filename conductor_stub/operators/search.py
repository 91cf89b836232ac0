# SPDX-License-Identifier: Apache-2.0
"""Lists of instances and of volumes in parts, by text, state and order: what the page shows of lists of any length.

Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

from typing import Annotated

import pydantic

from conductor_stub.operators.views import require_filters
from fleet.clock import as_text
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.engine.list_search import Search
from fleet.db.instances import instance_search
from fleet.db.instances.instance_search import FoundInstance
from fleet.db.volumes import volume_search
from fleet.db.volumes.volume_search import FoundVolume
from fleet.objects import fields
from fleet.objects.answers.instances import InstanceFound, InstancesFound
from fleet.objects.answers.volumes import VolumeFound, VolumesFound
from fleet.rpc.endpoint import endpoint, served

#: Rows of one answer: what the map of the page draws.
MOST = 20_000
Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=MOST)]
Filters = dict[fields.Name, fields.Text | None]


class SearchManager:
    """The RPC surface of the namespace ``operator`` for lists that are searched."""

    target = served("conductor", "operator")

    def __init__(self, database: Database) -> None:
        self._database = database

    @endpoint
    def search_instances(
        self,
        context: RequestContext,
        text: fields.Text = "",
        state: fields.Text | None = None,
        filters: Filters | None = None,
        sort: fields.Name = "created_at",
        descending: bool = True,
        limit: Limit = 50,
        offset: fields.Natural = 0,
        label: fields.Name | None = None,
    ) -> InstancesFound:
        """Return ``instances``, the ``total`` that match, and ``states``: how many match in each ``vm_state``.

        :param text: a part of name, uuid, project, flavor or, for the administrator, host; in any case
        :param label: a key of the metadata: each instance then has its value as ``label``
        :raises errors.InvalidInput: an unknown filter or order
        """
        require_filters(filters or {}, instance_search.FILTERS)
        search = Search(text, state, sort, descending, limit, offset)

        def read(connection: Connection) -> InstancesFound:
            found = instance_search.find(connection, search, filters or {}, label, bool(context.is_admin))
            return {
                "instances": [_instance(row, label) for row in found.rows],
                "total": found.total,
                "states": [{"state": state, "count": count} for state, count in found.states.items()],
            }

        return self._database.read(read)

    @endpoint
    def search_volumes(
        self,
        context: RequestContext,
        text: fields.Text = "",
        state: fields.Text | None = None,
        filters: Filters | None = None,
        sort: fields.Name = "created_at",
        descending: bool = True,
        limit: Limit = 50,
        offset: fields.Natural = 0,
    ) -> VolumesFound:
        """Return ``volumes``, the ``total`` that match, and ``states``: how many match in each status.

        :param text: a part of name, uuid, project, type or, for the administrator, host or pool; in any case
        :raises errors.InvalidInput: an unknown filter or order
        """
        require_filters(filters or {}, volume_search.FILTERS)
        search = Search(text, state, sort, descending, limit, offset)

        def read(connection: Connection) -> VolumesFound:
            found = volume_search.find(connection, search, filters or {}, bool(context.is_admin))
            return {
                "volumes": [_volume(row) for row in found.rows],
                "total": found.total,
                "states": [{"state": state, "count": count} for state, count in found.states.items()],
            }

        return self._database.read(read)


def _instance(row: FoundInstance, label: str | None) -> InstanceFound:
    shown: InstanceFound = {
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.project_id,
        "host": row.host,
        "vm_state": row.vm_state,
        "task_state": row.task_state,
        "power_state": row.power_state,
        "attempt": row.attempt,
        "created_at": as_text(row.created_at),
        "flavor_name": row.flavor_name,
        "vcpus": row.vcpus,
        "memory_mb": row.memory_mb,
        "disk_gb": row.disk_gb,
        "group_uuid": row.group_uuid,
    }
    if label is not None:
        shown["label"] = instance_search.label_of(row, label)
    return shown


def _volume(row: FoundVolume) -> VolumeFound:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.project_id,
        "host": row.host,
        "pool": row.pool,
        "status": row.status,
        "step": row.step,
        "size_gb": row.size_gb,
        "volume_type": row.volume_type,
        "created_at": as_text(row.created_at),
    }
