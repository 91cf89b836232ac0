# SPDX-License-Identifier: Apache-2.0
"""Lists of instances.

One is read in parts: what a conductor holds at once has a limit, however long the list is. Called by
:mod:`conductor_stub.operators.manager`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oslo_utils import timeutils

from conductor_stub.operators.views import instance_views
from conductor_stub.steps import bounded_list
from conductor_stub.steps.bounded_list import Bounds
from fleet import errors
from fleet.db.engine.database import Connection
from fleet.db.instances import instance_listing
from fleet.db.instances.instance_listing import BriefRow, SortKey
from fleet.db.volumes import attachments
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet.objects.answers.instances import BriefInstance, InstanceView

#: Of one answer, about. It grows when its text is escaped.
MOST_BYTES = 12 * 2**20
#: Instances that are read at once, if each may be large.
_PART = 250
_DIRECTIONS = ("asc", "desc")


def parsed(filters: Mapping[str, object]) -> JSONObject:
    """Return the filters with the time as a value. :raises errors.InvalidInput: it is no time"""
    found = dict(filters)
    if found.get("changed_since") is not None:
        try:
            moment = timeutils.parse_isotime(str(found["changed_since"]))
        except ValueError:
            raise errors.InvalidInput(field="filters.changed_since", reason="must be a time in ISO 8601") from None
        found["changed_since"] = fields.naive_utc(moment, "filters.changed_since")
    return found


def sort_keys(sort: Sequence[Sequence[str]]) -> list[SortKey]:
    """Return the keys by which a list is sorted, each once. :raises errors.InvalidInput: naming one that is not known"""
    found: dict[str, SortKey] = {}
    for each in sort:
        name, direction = each if len(each) == 2 else ("", "")
        if name not in instance_listing.SORTED_BY or direction not in _DIRECTIONS:
            known = ", ".join(instance_listing.SORTED_BY)
            reason = f"must have pairs of a key ({known}) and asc or desc, got {list(each)!r:.100}"
            raise errors.InvalidInput(field="sort", reason=reason)
        found.setdefault(name, SortKey(name, direction == "desc"))
    return list(found.values())


def read(
    connection: Connection,
    limit: int | None,
    marker: str | None,
    newest_first: bool,
    brief: bool,
    sort: Sequence[SortKey],
    filters: JSONMapping,
) -> list[InstanceView] | list[BriefInstance]:
    """Return the instances after the marker. The parameters are those of ``instance_listing.list_all``.

    :raises errors.InvalidInput: they have more than MOST_BYTES; errors.NotFound: an unknown marker
    """
    if brief:
        rows = instance_listing.list_brief(connection, limit, marker, newest_first, sort, **filters)
        return [_brief(row) for row in rows]

    def part_of(wanted: int, after: str | None) -> list[InstanceView]:
        rows = instance_listing.list_all(connection, wanted, after, newest_first, sort, **filters)
        volumes = attachments.volumes_by_instance(connection, [row.uuid for row in rows])
        return [{**view, "volumes": volumes.get(view["uuid"], [])} for view in instance_views(rows)]

    return bounded_list.read(part_of, limit, marker, Bounds(_PART, MOST_BYTES), "instances")


def _brief(row: BriefRow) -> BriefInstance:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.project_id,
        "host": row.host,
        "vm_state": row.vm_state,
        "task_state": row.task_state,
        "attempt": row.attempt,
    }
