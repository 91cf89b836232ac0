# SPDX-License-Identifier: Apache-2.0
"""A migration record as operators see it. The intake of moves and the lists of operators answer with it."""

from __future__ import annotations

from fleet import move_states
from fleet.clock import as_text
from fleet.db.tables.moves import MigrationRow
from fleet.objects.answers.instances import MigrationView

#: Kinds and statuses of moves in which a host copies a guest.
COPIES = ((move_states.RESIZE, move_states.POST_MIGRATING), (move_states.LIVE_MIGRATION, move_states.RUNNING))


def view(record: MigrationRow) -> MigrationView:
    old, new = record.old_spec["flavor"], record.new_spec["flavor"]
    shown: MigrationView = {
        "uuid": record.uuid,
        "instance_uuid": record.instance_uuid,
        "migration_type": record.migration_type,
        "status": record.status,
        "attempt": record.attempt,
        "failure": record.failure or None,  # one that cannot be read is empty
        "request_id": record.request_id,
        "source_compute": record.source_compute,
        "source_node": record.source_node,
        "dest_compute": record.dest_compute,
        "dest_node": record.dest_node,
        "created_at": as_text(record.created_at),
        "updated_at": as_text(record.updated_at),
        "deadline": as_text(record.deadline),
        # A record that is read alone does not have them.
        "project_id": getattr(record, "project_id", None),
        "user_id": getattr(record, "user_id", None),
        "old_flavor": old.get("name"),
        "new_flavor": new.get("name"),
        "resized": new != old,
    }
    if (record.migration_type, record.status) in COPIES and "copied" in record.plan:
        shown["copied_percent"] = record.plan["copied"]
    return shown
