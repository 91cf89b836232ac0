# SPDX-License-Identifier: Apache-2.0
"""A guest has arrived: the claims of the instance and of the record change places. Called by the modules beside it."""

from __future__ import annotations

from collections.abc import Mapping

from conductor_stub.moves import machine
from conductor_stub.moves.machine import Move
from conductor_stub.steps.limits import StepContext
from fleet import stored_json
from fleet.db.engine import claimed
from fleet.db.engine.database import Transaction
from fleet.db.instances import moves
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONMapping, JSONObject


def swap(tx: Transaction, move: Move, spec: Mapping[str, object], ctx: StepContext, **values: object) -> None:
    """Put the instance where the record holds its claim, with ``spec``. The record then holds what the instance had."""
    record, row = move.record, move.instance
    here = {"host": record.held_host, "node": record.held_node, **claimed.columns(claimed.held(record))}
    machine.set_instance(tx, row, ctx, **here, **_sizes(row, spec), **values)
    moves.update(tx, record.uuid, ctx.now, held_host=row.host, held_node=row.node, **claimed.columns(claimed.held(row)))


def _sizes(row: RequestedInstance, spec: JSONMapping) -> JSONObject:
    """Columns of an instance of this flavor. It keeps its size if that of the record cannot be read."""
    if stored_json.is_unreadable(spec):
        return {}
    flavor = spec["flavor"]
    original = all(row.spec.get(key) == value for key, value in spec.items())
    return {
        "resized_spec": None if original else dict(spec),
        "instance_type_id": flavor.get("id"),
        "flavor_name": flavor.get("name"),
        **{name: flavor[name] for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")},
        "swap_mb": flavor.get("swap", 0),
    }
