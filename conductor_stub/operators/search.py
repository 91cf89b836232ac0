# SPDX-License-Identifier: Apache-2.0
"""Lists of instances and of volumes in parts, by text, state and order: what the page shows of lists of any length.

Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import oslo_messaging
import pydantic

from conductor_stub.operators.views import plain, require_filters
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.engine.list_search import Found, Search
from fleet.db.instances import instance_search
from fleet.db.volumes import volume_search
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint

#: Rows of one answer: what the map of the page draws.
MOST = 20_000
Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=MOST)]
Filters = dict[fields.Name, fields.Text | None]


class SearchManager:
    """The RPC surface of the namespace ``operator`` for lists that are searched."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

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
    ) -> JSONObject:
        """Return ``instances``, the ``total`` that match, and ``states``: how many match in each ``vm_state``.

        :param text: a part of name, uuid, project, flavor or, for the administrator, host; in any case
        :param label: a key of the metadata: each instance then has its value as ``label``
        :raises errors.InvalidInput: an unknown filter or order
        """
        require_filters(filters or {}, instance_search.FILTERS)
        search = Search(text, state, sort, descending, limit, offset)

        def read(connection: Connection) -> JSONObject:
            found = instance_search.find(connection, search, filters or {}, label, bool(context.is_admin))
            names = (*instance_search.PLAIN, "disk_gb", "group_uuid")
            more = None if label is None else lambda row: {"label": instance_search.label_of(row, label)}
            return {"instances": _rows(found, names, more), "total": found.total, "states": _counts(found)}

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
    ) -> JSONObject:
        """Return ``volumes``, the ``total`` that match, and ``states``: how many match in each status.

        :param text: a part of name, uuid, project, type or, for the administrator, host or pool; in any case
        :raises errors.InvalidInput: an unknown filter or order
        """
        require_filters(filters or {}, volume_search.FILTERS)
        search = Search(text, state, sort, descending, limit, offset)

        def read(connection: Connection) -> JSONObject:
            found = volume_search.find(connection, search, filters or {}, bool(context.is_admin))
            return {
                "volumes": _rows(found, volume_search.PLAIN),
                "total": found.total,
                "states": _counts(found),
            }

        return self._database.read(read)


def _rows(found: Found, names: Sequence[str], more: Callable[[object], JSONMapping] | None = None) -> list[JSONObject]:
    rows = [{name: plain(getattr(row, name)) for name in names} for row in found.rows]
    if more is not None:
        for shown, row in zip(rows, found.rows, strict=True):
            shown.update(more(row))
    return rows


def _counts(found: Found) -> list[JSONObject]:
    return [{"state": state, "count": count} for state, count in found.states.items()]
