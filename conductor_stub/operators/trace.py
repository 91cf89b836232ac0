# SPDX-License-Identifier: Apache-2.0
"""The history of instances, volumes and snapshots, for ``fleet trace``.

:mod:`conductor_stub.operators.manager` answers with it.
"""

from __future__ import annotations

from conductor_stub.operators.views import plain
from fleet import errors
from fleet.db.engine.database import Connection
from fleet.db.instances import history, instance_listing, instances
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volume_history, volumes
from fleet.json_codec import JSONObject
from fleet.objects import location
from fleet.objects.answers.instances import TraceView

#: Most events in one answer, so that its message stays small.
LENGTH = 5000


def read(connection: Connection, name: str) -> TraceView:
    """``events``, oldest first, each with ``instance_uuid`` or ``volume_uuid``; their ``instances`` and ``volumes``.

    :param name: an instance, a reservation or request id, a volume or a snapshot; the first of them that there is
    :raises errors.NotFound: errors.Conflict: several instances or volumes have that name
    """
    lines = _of_instances(connection, name)
    of_volumes = volume_history.of_request(connection, name, LENGTH)
    if not lines and not of_volumes:
        of_volumes = volume_history.of_volume(connection, _volume(connection, name), LENGTH)
    events = [*lines, *({**row._mapping, "host": location.append_host(row.host, row.pool)} for row in of_volumes)]
    events = sorted(events, key=lambda event: event["created_at"])[:LENGTH]
    rows = instance_listing.summaries(connection, {line["instance_uuid"] for line in lines})
    stored = volumes.summaries(connection, {row.volume_uuid for row in of_volumes})
    return {
        "instances": [plain({**row._mapping}) for row in rows],
        "volumes": [_summary(row) for row in stored],
        "events": [plain({key: value for key, value in event.items() if key != "id"}) for event in events],
    }


def _of_instances(connection: Connection, name: str) -> list[JSONObject]:
    queries: tuple[dict[str, str], ...] = ({"reservation_id": name}, {"request_id": name})
    try:
        queries = ({"uuid": instances.find(connection, name).uuid},)
    except errors.NotFound:
        pass
    return next(filter(None, (history.timeline(connection, limit=LENGTH, **each) for each in queries)), [])


def _volume(connection: Connection, name: str) -> str:
    for kind in ("Volume", "Snapshot"):
        try:
            return str(volumes.find(connection, name, kind).uuid)
        except errors.NotFound:
            continue
    raise errors.NotFound(kind="Instance, volume, snapshot, reservation or request", name=name)


def _summary(row: VolumeRow) -> JSONObject:
    """Return the summary in the form of an instance's: the status is ``vm_state``, the step ``task_state``."""
    same = {name: getattr(row, name) for name in ("uuid", "name", "attempt", "updated_at", "step_deadline", "deadline")}
    host = location.append_host(row.host, row.pool)
    return plain({**same, "vm_state": row.status, "task_state": row.step, "host": host})
