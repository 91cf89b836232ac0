# SPDX-License-Identifier: Apache-2.0
"""Instance rows: find, list, compare and lock them. ``builds`` has the steps of builds, ``moves`` those of moves."""

from __future__ import annotations

import dataclasses
import datetime
import operator
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, cast

import sqlalchemy as sa

from fleet import errors, states, stored_json
from fleet.db.engine import claimed
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, lookup, services
from fleet.db.tables import models
from fleet.db.tables.base import Row
from fleet.db.tables.instances import InstanceRow, RequestedInstance
from fleet.db.tables.sql_types import Select
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Flavor, Image, Instance

INSTANCES = models.instances
MIGRATIONS = models.migrations
REQUESTS = models.build_requests

#: Fields of an Instance that come from its request, that are times, and that are columns as they stand.
_OF_REQUEST = ("flavor", "image", "metadata", "numa_topology", "pci_requests")
_TIMES = ("created_at", "launched_at")
_HELD = ("claimed_numa_topology", "claimed_pci_devices", "interfaces")
_OWN = (*_OF_REQUEST, *_TIMES, "shelved_attempt", "task_deadline")
_AS_STORED = [each.name for each in dataclasses.fields(Instance) if each.name not in _OWN]
_stored = operator.itemgetter(*_AS_STORED)
#: What requests of earlier releases lack.
_FLAVOR = vars(Flavor(vcpus=1, memory_mb=1))
_IMAGE = vars(Image())

#: In place of a spec that cannot be read. No host is chosen by it (:func:`require_readable`).
_UNREADABLE: Mapping[str, object] = {
    "flavor": _FLAVOR,
    "image": _IMAGE,
    "metadata": {},
    "scheduler_hints": {},
    "availability_zone": "",
}

#: Instances with the spec of their request.
JOINED = sa.select(INSTANCES, REQUESTS.c.spec, REQUESTS.c.group_uuid).join_from(INSTANCES, REQUESTS)
_ONE = INSTANCES.c.uuid == sa.bindparam("wanted")
_THESE = INSTANCES.c.uuid.in_(sa.bindparam("wanted", expanding=True))
_FOUND = JOINED.where(_ONE)
_LOCKED = _FOUND.with_for_update(of=INSTANCES)
_LOCKED_IN_ORDER = JOINED.where(_THESE).order_by(INSTANCES.c.uuid).with_for_update(of=INSTANCES)
_LOCKED_FOR_HOST = _FOUND.add_columns(services.INCARNATION).with_for_update(of=INSTANCES)
_LIVE = sa.not_(INSTANCES.c.deleted)
_HOSTS: sa.BindParameter[str] = sa.bindparam("hosts", expanding=True)
_PLACED = sa.select(
    INSTANCES.c.host, INSTANCES.c.uuid, INSTANCES.c.vm_state, INSTANCES.c.task_state, INSTANCES.c.power_state
).where(INSTANCES.c.host.in_(_HOSTS), _LIVE)
_MOVING = sa.select(MIGRATIONS.c.held_host, MIGRATIONS.c.instance_uuid).where(MIGRATIONS.c.held_host.in_(_HOSTS))
FILTERS = ("changed_since", "deleted", "host", "name", "project_id", "reservation_id", "uuids", "vm_state")
_SWITCHING = (
    JOINED.where(
        INSTANCES.c.vm_state.in_((states.ACTIVE, *states.AT_REST, states.ERROR)),
        INSTANCES.c.task_state.in_(states.POWER_TASKS),
        INSTANCES.c.step_deadline <= sa.bindparam("now", type_=models.Timestamp),
        _LIVE,
    )
    .order_by(INSTANCES.c.step_deadline, INSTANCES.c.uuid)
    .limit(sa.bindparam("at_most"))
)
_SHELVED = (
    JOINED.where(
        INSTANCES.c.vm_state == states.SHELVED,
        INSTANCES.c.task_state.is_(None),
        INSTANCES.c.step_deadline <= sa.bindparam("now", type_=models.Timestamp),
        _LIVE,
    )
    .order_by(INSTANCES.c.step_deadline, INSTANCES.c.uuid)
    .limit(sa.bindparam("at_most"))
)
#: Columns of an instance that no host holds.
NOTHING_CLAIMED = {"host": None, "node": None, **claimed.NOTHING}


class ServedInstance(RequestedInstance, Protocol):
    """An instance with the life of the agent that serves a host."""

    incarnation: str | None


class InstanceSummary(Row, Protocol):
    """The columns of :func:`summaries`."""

    uuid: str
    name: str
    vm_state: str
    task_state: str | None
    attempt: int
    host: str | None
    updated_at: datetime.datetime | None
    step_deadline: datetime.datetime | None
    deadline: datetime.datetime | None


def get(connection: Transaction | sa.Connection, uuid: str) -> RequestedInstance:
    """The row, also of a deleted instance. :raises errors.NotFound:"""
    row = cast("RequestedInstance | None", connection.execute(_FOUND, {"wanted": uuid}).one_or_none())
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def find(connection: sa.Connection, name: str, project: str | None = None) -> RequestedInstance:
    """By uuid, by the name of a live instance, or by the beginning of a uuid.

    :param project: look only at its instances; None: at all
    :raises errors.NotFound: errors.Conflict: several match; the message lists them
    """
    among = lookup.of_project(INSTANCES, project)
    row = get(connection, lookup.find(connection, "Instance", INSTANCES, name, _LIVE, among=among))
    lookup.require_visible(row, "Instance", name, project)
    return row


_ORDER = INSTANCES.c.created_at, INSTANCES.c.launch_index, INSTANCES.c.uuid
_PLACE = sa.select(*_ORDER, INSTANCES.c.project_id).where(INSTANCES.c.uuid == sa.bindparam("wanted", type_=sa.String))


def live(*conditions: Any) -> Select:
    """Query for live instances, oldest first."""
    return JOINED.where(_LIVE, *conditions).order_by(*_ORDER)


_ON_HOST = live(INSTANCES.c.host == sa.bindparam("on_host"))
_THESE_ON_HOST = _ON_HOST.where(_THESE)
_LIVE_OF_THESE = live(_THESE)


#: Columns of a brief list: none of them grows with what users send.
BRIEF = ("uuid", "name", "project_id", "host", "vm_state", "task_state", "attempt")
_BRIEF_QUERY = sa.select(*(INSTANCES.c[name] for name in BRIEF))


class BriefInstance(Row, Protocol):
    """The columns BRIEF."""

    uuid: str
    name: str
    project_id: str | None
    host: str | None
    vm_state: str
    task_state: str | None
    attempt: int


def list_all(
    connection: sa.Connection,
    limit: int | None = None,
    marker: str | None = None,
    newest_first: bool = False,
    **filters: object,
) -> Sequence[RequestedInstance]:
    """Live instances, oldest first, or newest first.

    :param marker: uuid of an instance: only those after it, in this order
    :param filters: named in FILTERS; None does not filter. With ``deleted`` only those that were deleted and whose rows
        are still kept; with ``changed_since``, a time in UTC, also these, but none that has not changed since then
    :raises errors.NotFound: there never was an instance ``marker``, or it is of another project than ``filters`` name
    """
    query = _after(connection, JOINED, marker, newest_first, filters).limit(limit)
    return cast("Sequence[RequestedInstance]", connection.execute(query).all())


def list_brief(
    connection: sa.Connection,
    limit: int | None = None,
    marker: str | None = None,
    newest_first: bool = False,
    **filters: object,
) -> Sequence[BriefInstance]:
    """:func:`list_all` with the columns BRIEF only."""
    query = _after(connection, _BRIEF_QUERY, marker, newest_first, filters).limit(limit)
    return cast("Sequence[BriefInstance]", connection.execute(query).all())


def _after(
    connection: sa.Connection,
    query: Select,
    marker: str | None,
    newest_first: bool,
    filters: Mapping[str, object],
) -> Select:
    where = [_condition(name, value) for name, value in filters.items() if value is not None]
    if filters.get("deleted") is None and filters.get("changed_since") is None:
        where.append(_LIVE)
    if marker is not None:
        last = connection.execute(_PLACE, {"wanted": marker}).one_or_none()
        if last is None:
            raise errors.NotFound(kind="Instance", name=marker)
        if filters.get("project_id") not in (None, last.project_id):
            # A project must not find out which uuids there are.
            raise errors.NotFound(kind="Instance", name=marker)
        place = (last.created_at, last.launch_index, last.uuid)
        where.append(sa.tuple_(*_ORDER) < place if newest_first else sa.tuple_(*_ORDER) > place)
    order = (each.desc() if newest_first else each for each in _ORDER)
    return query.where(*where).order_by(*order)


def _condition(name: str, value: Any) -> sa.ColumnElement[bool]:
    condition: sa.ColumnElement[bool]
    if name == "uuids":
        condition = INSTANCES.c.uuid.in_(value)
    elif name == "changed_since":
        condition = sa.func.coalesce(INSTANCES.c.updated_at, INSTANCES.c.created_at) >= value
    else:
        condition = INSTANCES.c[name] == value
    return condition


def summaries(connection: sa.Connection, uuids: Collection[str]) -> Sequence[InstanceSummary]:
    """Name, states, attempt, host and deadlines of these instances, also of deleted ones."""
    columns = ("uuid", "name", "vm_state", "task_state", "attempt", "host", "updated_at", "step_deadline", "deadline")
    query = sa.select(*(INSTANCES.c[name] for name in columns)).where(INSTANCES.c.uuid.in_(uuids))
    return cast(
        "Sequence[InstanceSummary]",
        connection.execute(query.order_by(INSTANCES.c.created_at, INSTANCES.c.name, INSTANCES.c.uuid)).all(),
    )


def not_of_project(connection: sa.Connection, uuids: Collection[str], project_id: str) -> Sequence[str]:
    """Return the uuids of instances, also of deleted ones, that belong to another project or to none."""
    another = sa.or_(INSTANCES.c.project_id != project_id, INSTANCES.c.project_id.is_(None))
    query = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.uuid.in_(uuids), another)
    return connection.execute(query.order_by(INSTANCES.c.uuid)).scalars().all()


def of_project(connection: sa.Connection, uuids: Collection[str], project_id: str) -> set[str]:
    """Return the uuids of instances, also of deleted ones, that belong to the project."""
    query = sa.select(INSTANCES.c.uuid).where(INSTANCES.c.uuid.in_(uuids), INSTANCES.c.project_id == project_id)
    return set(connection.execute(query.order_by(INSTANCES.c.uuid)).scalars())


def on_host(connection: sa.Connection, host: str, uuids: Sequence[str] | None = None) -> Sequence[RequestedInstance]:
    """Live instances on ``host``, oldest first. :param uuids: only these of them"""
    if uuids is None:
        return cast("Sequence[RequestedInstance]", connection.execute(_ON_HOST, {"on_host": host}).all())
    return cast(
        "Sequence[RequestedInstance]",
        connection.execute(_THESE_ON_HOST, {"on_host": host, "wanted": list(uuids)}).all(),
    )


def of_uuids(connection: Transaction | sa.Connection, uuids: Collection[str]) -> Sequence[RequestedInstance]:
    """Live instances among these, oldest first."""
    return cast(
        "Sequence[RequestedInstance]",
        connection.execute(_LIVE_OF_THESE, {"wanted": list(uuids)}).all() if uuids else [],
    )


def switching(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[RequestedInstance]:
    """Instances with a power task whose step is overdue, the most urgent first."""
    return cast("Sequence[RequestedInstance]", connection.execute(_SWITCHING, {"now": now, "at_most": limit}).all())


def shelved_until(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[RequestedInstance]:
    """Shelved instances that are to give their hosts back by now, the most urgent first."""
    return cast("Sequence[RequestedInstance]", connection.execute(_SHELVED, {"now": now, "at_most": limit}).all())


def compare(
    connection: sa.Connection,
    held: Mapping[str, Collection[str]],
    power: Mapping[str, Mapping[str, int]] = types.MappingProxyType({}),
) -> dict[str, list[str]]:
    """By host, the instances that its agent must read again.

    They are: instances (also of moves) that only the ledger, or only the agent, has on the host; instances that are being
    spawned, since only the agent knows whether it still works on them; and settled instances whose guest has another power
    state than the row.

    :param held: by host, the instances that its agent has
    :param power: by host and uuid, the power state that the driver reports
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


def lock(tx: Transaction, uuid: str, for_host: str | None = None) -> ServedInstance:
    """The row, locked until the transaction ends.

    :param for_host: add the incarnation of the agent that serves this host, as ``incarnation``, without a lock
    :raises errors.NotFound:
    """
    if for_host is None:
        row = cast("ServedInstance | None", tx.execute(_LOCKED, {"wanted": uuid}).one_or_none())
    else:
        row = cast(
            "ServedInstance | None",
            tx.execute(_LOCKED_FOR_HOST, {"wanted": uuid, "served_host": for_host}).one_or_none(),
        )
    if row is None:
        raise errors.NotFound(kind="Instance", name=uuid)
    return row


def lock_all(tx: Transaction, uuids: Collection[str]) -> dict[str, RequestedInstance]:
    """The rows that exist, by uuid, locked in one order for all transactions until this one ends."""
    return cast(
        "dict[str, RequestedInstance]",
        {row.uuid: row for row in tx.execute(_LOCKED_IN_ORDER, {"wanted": sorted(uuids)})},
    )


def place_of(row: InstanceRow) -> tuple[str, str]:
    """Host and node of an instance that a host has claimed."""
    assert row.host is not None, "a host has claimed the instance"
    assert row.node is not None, "a claim names its node"
    return row.host, row.node


def moved(row: RequestedInstance, values: Mapping[str, object]) -> RequestedInstance:
    """The locked ``row`` with ``values``, which were written, without another query."""
    return cast("RequestedInstance", types.SimpleNamespace(**{**cast("Row", row)._mapping, **values}))


def leave_host(
    tx: Transaction, row: RequestedInstance, values: Mapping[str, object], now: datetime.datetime, failed: bool = False
) -> None:
    """Set ``values`` on a locked row, and release what its host holds for it.

    :param failed: whether the host has failed to build it
    """
    tx.update(INSTANCES, row.uuid, {"updated_at": now, **NOTHING_CLAIMED, **values})
    tx.touch(INSTANCES, row.uuid)
    if row.host is not None and row.node is not None:
        hosts.refresh_usage(tx, row.host, row.node, now, built=False if failed else None)


def stale(row: InstanceRow, attempt: int, host: str) -> errors.StaleBuild:
    """The error for a late message of ``host`` about ``attempt``. It names no other host."""
    where = "no host" if row.host is None else "this host" if row.host == host else "another host"
    state = f"it is {row.vm_state}/{row.task_state or '-'} at attempt {row.attempt} on {where}"
    return errors.StaleBuild(instance_uuid=row.uuid, attempt=attempt, reason=state)


def require_readable(row: RequestedInstance) -> None:
    """:raises errors.RequestUnreadable: the stored request cannot be read: a host would be chosen by other sizes"""
    for spec in (row.spec, row.resized_spec):
        if stored_json.is_unreadable(spec):
            stored_json.note(spec, "build_requests", row.uuid)
            raise errors.RequestUnreadable(kind="instance", uuid=row.uuid)


def require_unlocked(row: InstanceRow) -> None:
    """:raises errors.Conflict: the instance is locked, and its caller is no administrator"""
    if row.locked_by is not None:
        why = f" ({row.locked_reason})" if row.locked_reason else ""
        reason = f"is locked by its {row.locked_by}{why}: unlock it first"
        if row.locked_by != "owner":
            reason = f"is locked by an administrator{why}: only an administrator changes it or unlocks it"
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)


def spec_of(row: RequestedInstance) -> JSONObject:
    """The spec of the request, with the changes of a resize and of the user."""
    return changed_spec(row.spec, row.resized_spec, row.details)


def changed_spec(
    spec: Mapping[str, object], resized_spec: JSONMapping | None, details: Mapping[str, object] | None
) -> JSONObject:
    """:func:`spec_of`, of the columns. A spec that cannot be read has the fields that every one has, and says so."""
    if stored_json.is_unreadable(spec):
        spec = _UNREADABLE
    return {**spec, **(resized_spec or {}), **(details or {})}


def to_instance(row: RequestedInstance) -> Instance:
    """The value that is sent. ``row`` is from a query of this module, or from :func:`moved`."""
    spec = spec_of(row)
    return Instance(
        uuid=row.uuid,
        flavor=Flavor(**_sized(row, spec)),
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
        # Requests that an earlier release has stored have neither.
        numa_topology=spec.get("numa_topology"),
        pci_requests=spec.get("pci_requests"),
        metadata=spec["metadata"],
        created_at=_plain(row.created_at),
        launched_at=_plain(row.launched_at),
        claimed_memory_mb=row.claimed_memory_mb,
        claimed_disk_gb=row.claimed_disk_gb,
        claimed_vcpus=row.claimed_vcpus,
        claimed_numa_topology=row.claimed_numa_topology or None,
        claimed_pci_devices=row.claimed_pci_devices or None,
        interfaces=row.interfaces or None,
        shelved_attempt=_shelved_attempt(row.vm_state, row.shelved),
        task_deadline=task_deadline(row.task_state, row.deadline),
    )


def to_wire(stored: JSONMapping, spec: JSONMapping) -> JSONObject:
    """``to_instance(row).to_wire()`` in a quarter of the time, for lists.

    :param stored: the columns of a row
    :param spec: :func:`changed_spec` of it
    """
    wire = dict(zip(_AS_STORED, _stored(stored), strict=True))
    for name in _TIMES:
        wire[name] = _plain(stored[name])
    for name in _OF_REQUEST:
        wire[name] = spec.get(name)
    for name in _HELD:
        # None, if it cannot be read.
        wire[name] = wire[name] or None
    wire["shelved_attempt"] = _shelved_attempt(stored["vm_state"], stored["shelved"])
    wire["task_deadline"] = task_deadline(stored["task_state"], stored["deadline"])
    flavor = spec["flavor"]
    if flavor is _FLAVOR:
        flavor = _sized(types.SimpleNamespace(**stored), spec)
    wire["flavor"], wire["image"] = {**_FLAVOR, **flavor}, {**_IMAGE, **spec["image"]}
    return wire


def _shelved_attempt(vm_state: str, shelved: JSONMapping | None) -> int | None:
    """The attempt whose disk an instance that is being unshelved starts with."""
    return shelved["attempt"] if shelved and vm_state == states.BUILDING else None


def task_deadline(task: str | None, deadline: datetime.datetime | None) -> str | None:
    """Name a power task: each has a deadline of its own, and the next one of the same kind has a later one."""
    return _plain(deadline) if task in states.POWER_TASKS else None


def _sized(row: RequestedInstance, spec: JSONMapping) -> JSONMapping:
    """The flavor. That of a request that cannot be read has the sizes that the row has besides."""
    flavor: Mapping[str, object] = spec["flavor"]
    if flavor is not _FLAVOR:
        return flavor
    stored_json.note(row.spec, "build_requests", row.uuid)
    sizes = {name: getattr(row, name) for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")}
    return {**_FLAVOR, **sizes, "name": row.flavor_name or ""}


def _plain(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds") + "Z"
