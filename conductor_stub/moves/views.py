# SPDX-License-Identifier: Apache-2.0
"""A migration record as operators see it. The intake of moves and the lists of operators answer with it."""

from __future__ import annotations

from fleet import move_states
from fleet.db.tables.moves import MigrationRow
from fleet.json_codec import JSONObject

#: Kinds and statuses of moves in which a host copies a guest.
COPIES = ((move_states.RESIZE, move_states.POST_MIGRATING), (move_states.LIVE_MIGRATION, move_states.RUNNING))


def view(record: MigrationRow) -> JSONObject:
    """Times are ISO 8601 text in UTC. ``resized`` is False for a move that keeps the flavor."""
    names = ("uuid", "instance_uuid", "migration_type", "status", "attempt", "failure", "request_id")
    places = ("source_compute", "source_node", "dest_compute", "dest_node")
    shown = {name: getattr(record, name) for name in (*names, *places)}
    shown["failure"] = record.failure or None  # one that cannot be read is empty
    for name in ("created_at", "updated_at", "deadline"):
        moment = getattr(record, name)
        shown[name] = moment and moment.isoformat(timespec="milliseconds") + "Z"
    if (record.migration_type, record.status) in COPIES and "copied" in record.plan:
        shown["copied_percent"] = record.plan["copied"]
    old, new = record.old_spec["flavor"], record.new_spec["flavor"]
    # A record that is read alone does not have them.
    of = {name: getattr(record, name, None) for name in ("project_id", "user_id")}
    return {**shown, **of, "old_flavor": old.get("name"), "new_flavor": new.get("name"), "resized": new != old}
