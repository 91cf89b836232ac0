# SPDX-License-Identifier: Apache-2.0
"""Instance rows: the ledger of builds. Every move is a compare-and-set on state and attempt (see ``fleet.states``)."""

from __future__ import annotations

import datetime
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleet import errors, failpoints, states
from fleet.db import history, hosts, models, services, uuid_prefix
from fleet.db.engine import Transaction
from fleet.objects import Flavor, Image, Instance

INSTANCES = models.instances
MIGRATIONS = models.migrations
REQUESTS = models.build_requests

_JOINED = sa.select(INSTANCES, REQUESTS.c.spec, REQUESTS.c.group_uuid).join_from(INSTANCES, REQUESTS)
_REQUEST = sa.select(REQUESTS.c.reservation_id).where(REQUESTS.c.reservation_id == sa.bindparam("wanted"))
_REQUEST_OF_TOKEN = sa.select(REQUESTS.c.reservation_id, REQUESTS.c.fingerprint).where(
    REQUESTS.c.project_id == sa.bindparam("of_project"), REQUESTS.c.client_token == sa.bindparam("token")
)
_OF_REQUEST = (
    sa.select(INSTANCES.c.uuid, INSTANCES.c.name)
    .where(INSTANCES.c.reservation_id == sa.bindparam("wanted"))
    .order_by(INSTANCES.c.launch_index)
)
_ONE = INSTANCES.c.uuid == sa.bindparam("wanted")
_THESE = INSTANCES.c.uuid.in_(sa.bindparam("wanted", expanding=True))
_FOUND = _JOINED.where(_ONE)
_LOCKED = _FOUND.with_for_update(of=INSTANCES)
_LOCKED_IN_ORDER = _JOINED.where(_THESE).order_by(INSTANCES.c.uuid).with_for_update(of=INSTANCES)
_LOCKED_FOR_HOST = _FOUND.add_columns(services.INCARNATION).with_for_update(of=INSTANCES)
_LIVE = sa.not_(INSTANCES.c.deleted)
_DELETED = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.name == sa.bindparam("named"), INSTANCES.c.deleted).limit(1)
_WAITING = (
    sa.select(INSTANCES.c.uuid)
    .where(
        _THESE,
        INSTANCES.c.vm_state == states.BUILDING,
        INSTANCES.c.task_state == states.SCHEDULING,
        INSTANCES.c.attempt == sa.bindparam("at_attempt"),
    )
    .with_for_update()
)
_UPDATE_THESE = INSTANCES.update().where(_THESE)
_JOINED_THESE = _JOINED.where(_THESE).order_by(INSTANCES.c.launch_index)
_BUILD_AT = INSTANCES.update().where(
    _ONE,
    INSTANCES.c.vm_state == states.BUILDING,
    INSTANCES.c.task_state.in_(sa.bindparam("steps", expanding=True)),
    INSTANCES.c.attempt == sa.bindparam("at_attempt"),
)
_BUILD_AT_HOST = _BUILD_AT.where(sa.or_(INSTANCES.c.host.is_(None), INSTANCES.c.host == sa.bindparam("on_host")))
_HOSTS = sa.bindparam("hosts", expanding=True)
_PLACED = sa.select(INSTANCES.c["host", "uuid", "vm_state", "task_state", "power_state"]).where(
    INSTANCES.c.host.in_(_HOSTS), _LIVE
)
_MOVING = sa.select(MIGRATIONS.c.held_host, MIGRATIONS.c.instance_uuid).where(MIGRATIONS.c.held_host.in_(_HOSTS))
_NOTHING_CLAIMED = {
    "host": None,
    "node": None,
    "claimed_memory_mb": 0,
    "claimed_disk_gb": 0,
    "claimed_vcpus": 0,
    "claimed_numa_topology": None,
    "claimed_pci_devices": None,
}

#: What a row has that was just accepted, besides what its request says.
_NOT_PLACED: Mapping[str, Any] = {
    **_NOTHING_CLAIMED,
    "power_state": 0,
    "launched_at": None,
    "resized_spec": None,
}


def create(tx: Transaction, request: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Insert a build request and its instances; False when they are there already (a repeated commit)."""
    key = request["reservation_id"]
    if tx.execute(_REQUEST, {"wanted": key}).first():
        return False
    tx.insert(REQUESTS, request)
    tx.insert_all(INSTANCES, rows)
    return True


def accepted(request: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    """An instance as :func:`create` writes it, like a row of this module's queries, without another look."""
    return types.SimpleNamespace(**_NOT_PLACED, **{**row, **request})


def request_of_token(connection: Transaction | sa.Connection, project_id: str, token: str) -> sa.Row | None:
    """``reservation_id`` and ``fingerprint`` of the project's request that came under this token."""
    return connection.execute(_REQUEST_OF_TOKEN, {"of_project": project_id, "token": token}).one_or_none()


def of_request(connection: Transaction | sa.Connection, reservation_id: str) -> Sequence[sa.Row]:
    """``uuid`` and ``name`` of all its instances, deleted or not, in their order."""
    return connection.execute(_OF_REQUEST, {"wanted": reservation_id}).all()


def get(connection: Transaction | sa.Connection, uuid: str) -> sa.Row:
    """The row, deleted or not. :raises errors.NotFound:"""
    row = connection.execute(_FOUND, {"wanted": uuid}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def find(connection: sa.Connection, name: str) -> sa.Row:
    """By uuid, by name while only one live instance has it, or by the beginning of one's uuid.

    The name of a deleted instance is not taken for the beginning of another one's uuid.

    :raises errors.NotFound: errors.Conflict: it fits several, which are named
    """
    rows = connection.execute(_JOINED.where(sa.or_(INSTANCES.c.uuid == name, sa.and_(INSTANCES.c.name == name, _LIVE))))
    found = rows.all()
    if not found:
        if connection.execute(_DELETED, {"named": name}).first() is not None:
            # A command that is repeated, such as a deletion, must not go to the instance whose uuid begins so.
            raise errors.NotFound(kind="Instance", name=name)
        return get(
            connection, uuid_prefix.find(connection, "Instance", INSTANCES.c.uuid, INSTANCES.c.name, name, _LIVE)
        )
    if len(found) > 1:
        raise errors.Conflict(kind="Instance", name=name, reason=f"is the name of {len(found)} instances; use a uuid")
    return found[0]


def live(*conditions: Any) -> sa.Select[Any]:
    """The query for live instances, oldest first."""
    return _JOINED.where(_LIVE, *conditions).order_by(INSTANCES.c.created_at, INSTANCES.c.launch_index)


_ON_HOST = live(INSTANCES.c.host == sa.bindparam("on_host"))
_THESE_ON_HOST = _ON_HOST.where(_THESE)
_LIVE_OF_THESE = live(_THESE)


def list_where(connection: sa.Connection, *conditions: Any, limit: int | None = None) -> Sequence[sa.Row]:
    """Live instances, oldest first."""
    return connection.execute(live(*conditions).limit(limit)).all()


def on_host(connection: sa.Connection, host: str, uuids: Sequence[str] | None = None) -> Sequence[sa.Row]:
    """Oldest first. :param uuids: only these of them"""
    if uuids is None:
        return connection.execute(_ON_HOST, {"on_host": host}).all()
    return connection.execute(_THESE_ON_HOST, {"on_host": host, "wanted": list(uuids)}).all()


def of_uuids(connection: sa.Connection, uuids: Collection[str]) -> Sequence[sa.Row]:
    """The live ones of these, oldest first."""
    return connection.execute(_LIVE_OF_THESE, {"wanted": list(uuids)}).all() if uuids else []


def compare(
    connection: sa.Connection,
    held: Mapping[str, Collection[str]],
    power: Mapping[str, Mapping[str, int]] = types.MappingProxyType({}),
) -> dict[str, list[str]]:
    """By host, the instances about which an agent may be mistaken: those that only one of the two, the ledger or the
    agent (``held``), has there, be it for a move; and those that are being spawned, of which only the agent knows
    whether it is at them. And those that nothing is done with, and whose guest is not in the state that the row says.

    :param power: by host and uuid, what the driver shows
    """
    found: dict[str, dict[str, str | None]] = {host: {} for host in held}
    other_power: dict[str, set[str]] = {host: set() for host in held}
    for row in connection.execute(_PLACED, {"hosts": list(held)}):
        found[row.host][row.uuid] = row.task_state
        observed = power.get(row.host, {}).get(row.uuid, row.power_state)
        if observed != row.power_state and row.task_state is None and row.vm_state in states.WATCHED:
            other_power[row.host].add(row.uuid)
    for host, uuid in connection.execute(_MOVING, {"hosts": list(held)}):
        found[host].setdefault(uuid, None)
    doubtful = {
        host: (set(uuids) ^ found[host].keys())
        | {uuid for uuid, task in found[host].items() if task == states.SPAWNING}
        | other_power[host]
        for host, uuids in held.items()
    }
    return {host: sorted(uuids) for host, uuids in doubtful.items() if uuids}


@failpoints.commits("conductor.take")
def take(
    tx: Transaction, uuids: Sequence[str], attempt: int, step_deadline: datetime.datetime, now: datetime.datetime
) -> tuple[Sequence[sa.Row], Sequence[sa.Row]]:
    """``scheduling → placing``: returns the rows this caller has taken, and now must place; and what was in vain for
    them before (:func:`fleet.db.history.vain`)."""
    mine = tx.execute(_WAITING, {"wanted": list(uuids), "at_attempt": attempt}).scalars().all()
    if not mine:
        return [], []
    taken = {"task_state": states.PLACING, "step_deadline": step_deadline, "updated_at": now}
    tx.execute(_UPDATE_THESE, {**taken, "wanted": mine})
    return tx.execute(_JOINED_THESE, {"wanted": mine}).all(), history.vain(tx, mine)


def move(
    tx: Transaction,
    uuid: str,
    *,
    attempt: int,
    steps: Sequence[str],
    values: Mapping[str, Any],
    host: str | None = None,
    now: datetime.datetime,
) -> bool:
    """The compare-and-set: whether the build was in one of ``steps`` of ``attempt`` (on ``host``) and now has ``values``."""
    expected = {"wanted": uuid, "steps": list(steps), "at_attempt": attempt}
    if host is not None:
        expected["on_host"] = host
    moved = tx.execute(_BUILD_AT if host is None else _BUILD_AT_HOST, {"updated_at": now, **values, **expected})
    return moved.rowcount == 1


def lock(tx: Transaction, uuid: str, for_host: str | None = None) -> sa.Row:
    """The row, locked until the transaction ends.

    :param for_host: the row says, too, as ``incarnation``, which life of an agent serves this host; that locks nothing
    :raises errors.NotFound:
    """
    if for_host is None:
        row = tx.execute(_LOCKED, {"wanted": uuid}).one_or_none()
    else:
        row = tx.execute(_LOCKED_FOR_HOST, {"wanted": uuid, "served_host": for_host}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def lock_all(tx: Transaction, uuids: Collection[str]) -> dict[str, sa.Row]:
    """By uuid, those that there are, locked until the transaction ends, in an order that no two can contradict."""
    return {row.uuid: row for row in tx.execute(_LOCKED_IN_ORDER, {"wanted": sorted(uuids)})}


def moved(row: sa.Row, values: Mapping[str, Any]) -> Any:
    """The locked ``row`` as it is after ``values`` were set, without another look."""
    return types.SimpleNamespace(**{**row._mapping, **values})


def leave_host(
    tx: Transaction, row: sa.Row, values: Mapping[str, Any], now: datetime.datetime, failed: bool = False
) -> None:
    """Set ``values`` on a locked row and give back what its host held for it, in one step.

    :param failed: whether the host has failed to build it
    """
    tx.update(INSTANCES, row.uuid, {"updated_at": now, **_NOTHING_CLAIMED, **values})
    tx.touch(INSTANCES, row.uuid)
    if row.host is not None:
        hosts.refresh_usage(tx, row.host, row.node, now, built=False if failed else None)


def stale(row: sa.Row, attempt: int) -> errors.StaleBuild:
    """Why a message about ``attempt`` comes too late."""
    state = f"it is {row.vm_state}/{row.task_state or '-'} at attempt {row.attempt} on {row.host or 'no host'}"
    return errors.StaleBuild(instance_uuid=row.uuid, attempt=attempt, reason=state)


def spec_of(row: Any) -> dict[str, Any]:
    """What was asked for, as a resize has changed it since."""
    return {**row.spec, **(row.resized_spec or {})}


def to_instance(row: Any) -> Instance:
    """The value that travels. ``row`` is of this module's queries, or :func:`moved` from one."""
    spec = spec_of(row)
    return Instance(
        uuid=row.uuid,
        flavor=Flavor(**spec["flavor"]),
        name=row.name,
        project_id=row.project_id,
        user_id=row.user_id,
        reservation_id=row.reservation_id,
        image=Image(**spec["image"]),
        vm_state=row.vm_state,
        task_state=row.task_state,
        power_state=row.power_state,
        attempt=row.attempt,
        host=row.host,
        node=row.node,
        availability_zone=row.availability_zone,
        # Requests that were stored by an earlier release have neither.
        numa_topology=spec.get("numa_topology"),
        pci_requests=spec.get("pci_requests"),
        metadata=spec["metadata"],
        created_at=_plain(row.created_at),
        launched_at=_plain(row.launched_at),
        claimed_memory_mb=row.claimed_memory_mb,
        claimed_disk_gb=row.claimed_disk_gb,
        claimed_vcpus=row.claimed_vcpus,
        claimed_numa_topology=row.claimed_numa_topology,
        claimed_pci_devices=row.claimed_pci_devices,
    )


def _plain(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds") + "Z"
