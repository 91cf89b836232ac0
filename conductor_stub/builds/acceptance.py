# SPDX-License-Identifier: Apache-2.0
"""The transaction that accepts build requests: it writes the rows of those that their quota and their volumes allow.

Called by :mod:`conductor_stub.builds.intake` and :mod:`conductor_stub.builds.new_rows`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Sequence

from conductor_stub.builds.client_token import ClientToken
from conductor_stub.builds.reserving import Reserved, Reserving
from fleet import capacity, errors, failpoints
from fleet.db.catalog import groups, quotas
from fleet.db.engine.database import Transaction
from fleet.db.instances import addresses, boot_data, builds, history
from fleet.db.instances.addresses import FreeAddresses
from fleet.db.instances.waiting import queued_builds
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import BootData
from fleet.objects.answers.instances import AcceptedRequest
from fleet.objects.quota import Quota

FIRST_ATTEMPT = 1


@dataclasses.dataclass(frozen=True)
class Acceptance:
    """The rows of a request that is accepted."""

    request: JSONObject
    rows: list[JSONObject]
    token: ClientToken | None
    #: Columns of a build that waits behind one of its shape.
    queued: JSONObject | None = None
    boot_data: BootData | None = None
    #: The volumes of its only instance.
    volumes: Sequence[Reserved] = ()
    #: What each instance is plugged into, without addresses: those of the rows are of the newest try to write them.
    plugs: Sequence[JSONObject] = ()

    @property
    def planned(self) -> list[Sequence[JSONObject]]:
        return [self.plugs for _row in self.rows]

    def claim(self, free: FreeAddresses) -> None:
        """:raises errors.NotFound: errors.Conflict: a network has no address for an instance"""
        if self.plugs:
            for row, plugs in zip(self.rows, free.claim(self.planned), strict=True):
                row["interfaces"] = plugs

    def give_back(self, free: FreeAddresses) -> None:
        if self.plugs:
            free.give_back(row["interfaces"] for row in self.rows)

    def key(self) -> Hashable:
        """Return a key that is equal for requests of which at most one may be written."""
        return self.token.key if self.token else self.request["reservation_id"]


@failpoints.commits("conductor.accept")
def insert_all(
    tx: Transaction, acceptances: Sequence[Acceptance], default: Quota, reserving: Reserving | None = None
) -> list[AcceptedRequest | None | errors.FleetError]:
    """Write the rows of each. Where an earlier request had the same token, return its answer instead of None.

    A request above the quota of its project is refused alone; those after it are judged as if it had not been there.
    """
    # All at once, in one order.
    volumes.lock_all(tx, [one.seen.uuid for each in acceptances for one in each.volumes])
    existing = groups.held(tx, {each.request["group_uuid"] for each in acceptances if each.request["group_uuid"]})
    free = FreeAddresses(tx, [plugs for each in acceptances for plugs in each.planned])
    projects = [each.rows[0]["project_id"] for each in acceptances]
    keys = [each.request["reservation_id"] for each in acceptances]
    # At once, because a statement between the rows of two requests would end the batch that is written.
    tokens = [each.token.key for each in acceptances if each.token]
    found = quotas.look(tx, quotas.BUILDS, projects, default, keys, tokens)
    answers = [_insert(tx, each, found, free, existing, reserving) for each in acceptances]
    free.go_on(tx)
    return answers


def _insert(
    tx: Transaction,
    accepted: Acceptance,
    found: quotas.Found,
    free: FreeAddresses,
    existing: Collection[str],
    reserving: Reserving | None,
) -> AcceptedRequest | None | errors.FleetError:
    request, token = accepted.request, accepted.token
    try:
        first = token.first_answer(tx) if token and token.key in found.tokens else None
    except errors.Conflict as other:
        return other
    if first is not None:
        return None if first["reservation_id"] == request["reservation_id"] else first
    if request["reservation_id"] in found.keys:
        return None
    if request["group_uuid"] and request["group_uuid"] not in existing:
        return errors.NotFound(kind="Server group", name=request["group_uuid"])
    try:
        if reserving is not None:
            reserving.require(tx, accepted.volumes)
        accepted.claim(free)
        found.headroom.take(accepted.rows[0]["project_id"], **quota_of(accepted.rows))
    except errors.QuotaExceeded as exceeded:
        accepted.give_back(free)
        return exceeded
    except (errors.Conflict, errors.NotFound) as refused:
        return refused
    builds.create(tx, {**request, **(token.columns() if token else {})}, accepted.rows)
    if reserving is not None:
        reserving.write(tx, accepted.volumes, accepted.rows[0])
    if accepted.boot_data is not None:
        boot_data.create(tx, request["reservation_id"], accepted.boot_data)
    for row in accepted.rows:
        addresses.write(tx, row)
    uuids = [row["uuid"] for row in accepted.rows]
    if request["group_uuid"]:
        groups.add_members(tx, request["group_uuid"], uuids)
    for uuid in uuids:
        history.add_event(tx, uuid, "create", now=request["created_at"], request_id=request["request_id"])
    if accepted.queued is not None:
        queued_builds.enter_behind(tx, uuids[0], accepted.queued)
        why = {"result": "NoValidHost", "message": accepted.queued["message"], "attempt": FIRST_ATTEMPT}
        times = {"now": request["created_at"], "request_id": request["request_id"]}
        history.add_event(tx, uuids[0], history.QUEUE, **times, **why)
    return None


def quota_of(rows: Sequence[JSONMapping]) -> dict[str, int]:
    """Return the quota that the instances use."""
    return {
        "instances": len(rows),
        "cores": sum(row["vcpus"] for row in rows),
        "ram": sum(row["memory_mb"] for row in rows),
        "local_gb": sum(capacity.local_disk_gb(row["root_gb"], row["ephemeral_gb"], row["swap_mb"]) for row in rows),
    }
