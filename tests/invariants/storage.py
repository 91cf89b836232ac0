# SPDX-License-Identifier: Apache-2.0
"""What holds of volumes and storage pools: at every instant by the database, and at rest by what lies on the backends."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterator, Mapping

from tests.invariants.ledger import Ledger, Row

#: As for builds, see ``moment``.
GRACE_S = 20
_STATES = {
    ("creating", "scheduling"),
    ("creating", "placing"),
    ("creating", "working"),
    ("extending", "working"),
    ("error_extending", None),
    ("migrating", "scheduling"),
    ("migrating", "placing"),
    ("migrating", "copying"),
    ("retyping", "scheduling"),
    ("retyping", "placing"),
    ("retyping", "copying"),
    ("retyping", "working"),
    ("managing", "scheduling"),
    ("managing", "placing"),
    ("managing", "working"),
    ("error_managing", None),
    ("unmanaging", "working"),
    ("deleting", "removing"),
    ("deleting", "working"),
    ("error_deleting", None),
    ("available", "removing"),
    ("available", None),
    ("reserved", None),
    ("attaching", None),
    ("in-use", None),
    ("detaching", None),
    ("error", None),
    ("deleted", None),
}

#: Statuses that end by a deadline.
_TIMED = ("creating", "managing", "extending", "migrating", "retyping", "unmanaging", "deleting")
#: Statuses in which the size of a volume may not be known yet.
_UNMEASURED = ("managing", "unmanaging", "error_managing")

#: By location and uuid: GiB of a volume as it lies on its backend.
Stored = Mapping[str, Mapping[str, int]]


def _claims(ledger: Ledger, pool: Row) -> tuple[int, int]:
    """GiB that volumes and snapshots claim of a pool, and the number of these volumes."""
    where = (pool["host"], pool["pool"])
    live = [row for row in ledger.volumes if not row["deleted"]]
    own = [row for row in live if (row["host"], row["pool"]) == where]
    held = [row for row in live if (row["held_host"], row["held_pool"]) == where]
    claimed = sum(row["claimed_gb"] for row in own) + sum(row["held_gb"] for row in held)
    return claimed, sum(row["snapshot_of"] is None for row in [*own, *held])


def pools_count_their_volumes(ledger: Ledger) -> Iterator[str]:
    """I13: a pool's row has the number of its volumes and the sum of all claims, which fit in unless the pool has shrunk."""
    for pool in ledger.pools:
        name, claims = f"{pool['host']}#{pool['pool']}", _claims(ledger, pool)
        counted = (pool["allocated_capacity_gb"], pool["total_volumes"])
        if counted != claims:
            yield f"{name}: its row counts {counted}, its volumes come to {claims}"
        ratio, total = pool["max_over_subscription_ratio"], pool["total_capacity_gb"]
        if total is None or ratio in (None, "auto") or name in ledger.shrunk:
            continue
        most = total - math.floor(total * pool["reserved_percentage"] / 100)
        most *= float(ratio) if pool["thin_provisioning_support"] else 1.0
        if claims[0] > most:
            yield f"{name}: {claims[0]} GiB are claimed, at most {most:g} are allowed"


def every_volume_ends_in_time(ledger: Ledger) -> Iterator[str]:
    """I14: a volume is made by its deadline, or in error with a reason; it has no state that does not exist."""
    late = ledger.read_at - datetime.timedelta(seconds=GRACE_S)
    for row in ledger.volumes:
        if (row["status"], row["step"]) not in _STATES:
            yield f"volume {row['uuid']} is {row['status']}/{row['step']}, which does not exist"
        if row["status"] in _TIMED and row["deadline"] < late:
            yield f"volume {row['uuid']} is {row['status']}/{row['step']} after its deadline"
        if row["status"].startswith("error") and not row["failure"]:
            yield f"volume {row['uuid']} is in error without a reason"
        for host, pool, size in (("host", "pool", "claimed_gb"), ("held_host", "held_pool", "held_gb")):
            unmeasured = row["status"] in _UNMEASURED and not row[size]
            claims_nothing = row[host] is None if unmeasured else row[size] == 0
            if not row["deleted"] and len({row[host] is None, row[pool] is None, claims_nothing}) > 1:
                yield f"volume {row['uuid']} claims {row[size]} GiB of {row[host]}#{row[pool]}"
        holds = row["held_host"] is not None
        if (
            not row["deleted"]
            and row["status"] != "error_deleting"
            and holds != (row["step"] in ("copying", "removing"))
        ):
            yield f"volume {row['uuid']} is {row['status']}/{row['step']} and holds {row['held_gb']} GiB elsewhere"


def volumes_are_where_the_ledger_says(ledger: Ledger, stored: Stored) -> Iterator[str]:
    """I15, at rest: each backend has what the ledger has there, volumes and snapshots, and counts the same GiB."""
    for pool in ledger.pools:
        name = f"{pool['host']}#{pool['pool']}"
        if name not in stored:
            continue
        there, allowed = stored[name], _allowed(ledger, pool)
        for uuid in sorted(there.keys() | allowed.keys()):
            if there.get(uuid) not in allowed.get(uuid, {None}):
                yield f"{name}: of {uuid} it has {there.get(uuid)} GiB, the ledger allows {allowed.get(uuid, {None})}"
        counted = ledger.capabilities(pool)["allocated_capacity_gb"]
        if counted != sum(there.values()):
            yield f"{name}: its agent counts {counted} GiB, there are {sum(there.values())}"


def _allowed(ledger: Ledger, pool: Row) -> dict[str, set[int | None]]:
    """By uuid the GiB that may lie on a pool. What was given up keeps its claim, whether the backend has done it or not."""
    where, found = (pool["host"], pool["pool"]), {}
    for row in ledger.volumes:
        if row["deleted"] or where not in ((row["host"], row["pool"]), (row["held_host"], row["held_pool"])):
            continue
        sizes: set[int | None] = {row["size_gb"]}
        if row["status"] == "error_extending":
            sizes.add(row["claimed_gb"])
        if row["status"] in ("error", "error_deleting", "error_managing"):
            sizes.add(None)
        found[row["uuid"]] = sizes
    return found


def snapshots_have_their_volume(ledger: Ledger) -> Iterator[str]:
    """I15: a snapshot is on the pool of its volume, which lives as long as its snapshots."""
    known = {row["uuid"]: row for row in ledger.volumes}
    for row in ledger.volumes:
        if row["snapshot_of"] is None or row["deleted"]:
            continue
        volume = known.get(row["snapshot_of"])
        if volume is None or volume["deleted"]:
            yield f"snapshot {row['uuid']} has lost its volume {row['snapshot_of']}"
        elif row["host"] is not None and (row["host"], row["pool"]) != (volume["host"], volume["pool"]):
            yield f"snapshot {row['uuid']} is not on the pool of its volume {volume['uuid']}"


def every_volume_is_over(ledger: Ledger) -> Iterator[str]:
    """I14, at rest: nothing is on its way any more."""
    for row in ledger.volumes:
        if row["step"] is not None:
            yield f"volume {row['uuid']} is {row['status']}/{row['step']} at attempt {row['attempt']} on {row['host']}"


def attachments_agree_with_volumes(ledger: Ledger) -> Iterator[str]:
    """I16: a volume has one attachment while it is attached, in use or detached, and none otherwise; its instance lives.

    It is reserved as long as its instance is being built or shelved elsewhere, and no longer.
    """
    status = {"reserved": "reserved", "attaching": "attaching", "attached": "in-use", "detaching": "detaching"}
    attached = {row["volume_uuid"]: row for row in ledger.attachments}
    known = {row["uuid"]: row for row in ledger.volumes}
    if len(attached) < len(ledger.attachments):
        yield f"of {len(ledger.attachments)} attachments {len(ledger.attachments) - len(attached)} share a volume"
    for row in ledger.volumes:
        found = attached.get(row["uuid"])
        expected = found and status.get(found["status"])
        if expected != (row["status"] if row["status"] in status.values() else None):
            yield f"volume {row['uuid']} is {row['status']}, its attachment {found and found['status']}"
    for uuid, row in attached.items():
        if uuid not in known or known[uuid]["deleted"]:
            yield f"attachment {row['uuid']} has lost its volume {uuid}"
        if not row["is_alive"]:
            yield f"attachment {row['uuid']} has lost its instance {row['instance_uuid']}"
        elif (row["status"] == "reserved") != (row["vm_state"] in ("building", "shelved_offloaded")):
            yield f"attachment {row['uuid']} is {row['status']}, its instance {row['vm_state']}"


def guests_have_their_volumes(ledger: Ledger, drivers: Mapping[str, Collection[str]]) -> Iterator[str]:
    """I16, at rest: each guest has the volumes that are attached to it, and no others.

    :param drivers: by instance, the volumes that its host's driver has attached
    """
    attached: dict[str, set[str]] = {}
    for row in ledger.attachments:
        if row["status"] != "attached":
            yield f"attachment {row['uuid']} is {row['status']} at rest"
        attached.setdefault(row["instance_uuid"], set()).add(row["volume_uuid"])
    for uuid in sorted(attached.keys() | drivers.keys()):
        there, expected = sorted(drivers.get(uuid, ())), sorted(attached.get(uuid, ()))
        if there != expected:
            yield f"guest {uuid} has the volumes {there}, the ledger {expected}"
