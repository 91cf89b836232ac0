# SPDX-License-Identifier: Apache-2.0
"""Service records: which process serves which host, and when it sent its last heartbeat (``heartbeats``).

Conductors read and write them.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

import sqlalchemy as sa

from fleet import errors, maintenance_states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.hosts import ServiceRow
from fleet.db.tables.sql_types import Columns, Element, Values
from fleet.objects import host_report
from fleet.rpc import versions

SERVICES = models.services
COMPUTE = "fleet-compute"
VOLUME = "fleet-volume"
#: The alarm of a host whose agent is stopping.
STOPPING = "its agent is stopping"
REASON_LENGTH = 255


_FOUND = sa.select(SERVICES).where(
    SERVICES.c.host == sa.bindparam("on_host"), SERVICES.c.binary == sa.bindparam("which")
)
_LOCKED = _FOUND.with_for_update()
_HOSTS: sa.BindParameter[str] = sa.bindparam("hosts", expanding=True)
_AGENTS = (
    sa.select(SERVICES)
    .where(SERVICES.c.binary == sa.bindparam("which"), SERVICES.c.host.in_(_HOSTS))
    .order_by(SERVICES.c.host)
)


def is_alive(since: Element) -> Element:
    """The condition that a service has sent a heartbeat since then, and was neither forced down nor deleted."""
    return sa.and_(SERVICES.c.last_seen_up >= since, sa.not_(SERVICES.c.forced_down), sa.not_(SERVICES.c.deleted))


_LIVE = (
    sa.select(SERVICES.c.host)
    .where(
        SERVICES.c.binary == sa.bindparam("which"),
        SERVICES.c.topic == sa.bindparam("of_topic"),
        is_alive(sa.bindparam("since")),
    )
    .order_by(SERVICES.c.host)
)


#: By the index of the generations: the newest one hardly ever is of a host that is down.
_IN_USE = (
    sa.select(SERVICES.c.generation)
    .where(SERVICES.c.binary == COMPUTE, sa.not_(SERVICES.c.disabled), is_alive(sa.bindparam("since")))
    .order_by(SERVICES.c.generation.desc())
    .limit(1)
)


def _is_worked_on(host: Element) -> Element:
    rows = models.maintenance_hosts
    return sa.exists().where(rows.c.open_host == host, rows.c.status == maintenance_states.WORKING).label("worked_on")


#: For use in other queries.
IS_WORKED_ON = _is_worked_on(sa.bindparam("served_host"))
INCARNATION = (
    sa.select(SERVICES.c.incarnation)
    .where(SERVICES.c.host == sa.bindparam("served_host"), SERVICES.c.binary == COMPUTE)
    .scalar_subquery()
    .label("incarnation")
)
_SERVING = sa.select(INCARNATION, IS_WORKED_ON)
_ALL_SERVING = (
    sa.select(
        SERVICES.c.host,
        SERVICES.c.incarnation,
        _is_worked_on(SERVICES.c.host),
    )
    .where(SERVICES.c.host.in_(_HOSTS), SERVICES.c.binary == COMPUTE)
    .order_by(SERVICES.c.host)
)
#: Locked until the end of the transaction: a registration waits for it, a heartbeat (on PostgreSQL) does not.
_HELD_SERVING = _ALL_SERVING.with_for_update(read=True, key_share=True, of=SERVICES)


class Serving(NamedTuple):
    """The state of a host that its claims depend on.

    :ivar incarnation: of the agent that serves it
    :ivar worked_on: it is empty for a maintenance, whose hook may run: no guest may come
    """

    incarnation: str | None
    worked_on: bool


class _Alive(Protocol):
    """The columns that :func:`is_up` reads."""

    forced_down: bool
    last_seen_up: datetime.datetime | None


def register(
    tx: Transaction, service: Values, now: datetime.datetime, down_time_s: float, enabled: bool = True
) -> ServiceRow:
    """Create or take over the record of ``host`` and ``binary``. The process that registered last owns it.

    :param service: host, binary, topic, incarnation, identity, life, pid, hostname, rpc_version, release
    :param enabled: whether a new record takes builds at once (``enable_new_services``)
    :raises errors.HostTaken: a process of another identity, or of a later life of the same one, owns it and sent a
        heartbeat within ``down_time_s`` seconds
    """
    sent = ("topic", "incarnation", "identity", "life", "pid", "hostname", "rpc_version", "release")
    life = {key: service.get(key) for key in sent}
    life.update(started_at=now, last_seen_up=now, updated_at=now, deleted=False, deleted_at=None)
    found = get(tx, service["host"], service["binary"], lock=True)
    _require_free(found, service, now, down_time_s)
    if found is None:
        new = {"host": service["host"], "binary": service["binary"], "created_at": now, "disabled": not enabled}
        tx.touch(SERVICES, tx.insert(SERVICES, {**new, **life}))
    else:
        # A service that was removed starts like a new one.
        anew = {"disabled": not enabled, "disabled_reason": None} if found.deleted else {}
        _change(tx, found, {**life, **anew})
    return _get(tx, service["host"], service["binary"])


def require_free(
    connection: sa.Connection, wanted: Sequence[Values], now: datetime.datetime, down_time_s: float
) -> None:
    """Check that :func:`register` would accept all. :raises errors.HostTaken: naming the first that is not free"""
    for service in wanted:
        _require_free(get(connection, service["host"], service["binary"]), service, now, down_time_s)


def _require_free(found: ServiceRow | None, service: Values, now: datetime.datetime, down_time_s: float) -> None:
    if found is None or found.identity is None:
        return
    life = service.get("life")
    if found.identity == service.get("identity") and (life is None or life >= (found.life or 0)):
        return
    # Otherwise it is another machine's, or a late message of a former life: a live agent must not lose its host to either.
    if is_up(found, now, down_time_s):
        who = {key: getattr(found, key) for key in ("host", "pid", "hostname", "identity")}
        raise errors.HostTaken(**who, started_at=f"{found.started_at:%Y-%m-%d %H:%M:%S} UTC")


def leave(tx: Transaction, binary: str, hosts: Sequence[str], incarnation: str, now: datetime.datetime) -> None:
    """The process has stopped: its records are down from now on, and any process may take them over."""
    mine = (SERVICES.c.binary == binary, SERVICES.c.host.in_(hosts), SERVICES.c.incarnation == incarnation)
    keys = tx.execute(sa.select(SERVICES.c.id).where(*mine).order_by(SERVICES.c.id).with_for_update()).scalars().all()
    if keys:
        tx.execute(SERVICES.update().where(SERVICES.c.id.in_(keys)).values(last_seen_up=None, updated_at=now))
        tx.touch(SERVICES, *keys)


def require(connection: Transaction | sa.Connection, host: str, binary: str) -> None:
    """:raises errors.NotFound: no such service"""
    found = get(connection, host, binary)
    if found is None or found.deleted:
        raise errors.NotFound(kind="Service", name=f"{binary} on {host}")


def require_host(connection: sa.Connection, host: str) -> None:
    """:raises errors.NotFound: no agent has registered for this host, and no node of it is known"""
    nodes = sa.select(models.compute_nodes.c.id).where(models.compute_nodes.c.host == host)
    agent = get(connection, host, COMPUTE)
    if (agent is None or agent.deleted) and not connection.execute(
        nodes.where(sa.not_(models.compute_nodes.c.deleted)).limit(1)
    ).first():
        raise errors.NotFound(kind="Host", name=host)


def get(tx: Transaction | sa.Connection, host: str | None, binary: str, lock: bool = False) -> ServiceRow | None:
    return cast(
        "ServiceRow | None", tx.execute(_LOCKED if lock else _FOUND, {"on_host": host, "which": binary}).one_or_none()
    )


def _get(tx: Transaction, host: str, binary: str) -> ServiceRow:
    """The record as this transaction has left it."""
    return cast("ServiceRow", tx.execute(_FOUND, {"on_host": host, "which": binary}).one())


def _change(tx: Transaction, row: ServiceRow, values: Mapping[str, object]) -> None:
    tx.update(SERVICES, row.id, values)
    tx.touch(SERVICES, row.id)


def serving(tx: Transaction, host: str) -> Serving:
    """No lock is taken."""
    return Serving(*tx.execute(_SERVING, {"served_host": host}).one())


def all_serving(tx: Transaction, hosts: Collection[str], held: bool = False) -> dict[str, Serving]:
    """:func:`serving` by host.

    :param held: no other process can register for these hosts until the transaction ends
    """
    found = tx.execute(_HELD_SERVING if held else _ALL_SERVING, {"hosts": sorted(hosts)}).all() if hosts else ()
    known = {row.host: Serving(row.incarnation, row.worked_on) for row in found}
    return {host: known.get(host, Serving(None, False)) for host in hosts}


def require_no_work(host: str, serving: Serving) -> None:
    """:raises errors.ComputeResourcesUnavailable: the host is empty for a maintenance, as its hook may run now"""
    if serving.worked_on:
        raise errors.ComputeResourcesUnavailable(reason=f"host {host} is empty for a maintenance")


def check_incarnation(tx: Transaction, host: str, found: str | None, incarnation: str) -> None:
    """:param found: from :func:`serving`. :raises errors.StaleIncarnation: another process serves this host now"""
    if found != incarnation:
        service = get(tx, host, COMPUTE)
        raise errors.StaleIncarnation(
            host=host,
            pid=getattr(service, "pid", None),
            hostname=getattr(service, "hostname", None),
            started_at=str(getattr(service, "started_at", None)),
        )


def taking_builds(
    tx: Transaction, hosts: Collection[str], now: datetime.datetime, down_time_s: float, binary: str = COMPUTE
) -> frozenset[str]:
    """The hosts whose agent is up and enabled."""
    if not hosts:
        return frozenset()
    found = tx.execute(_AGENTS, {"hosts": list(hosts), "which": binary}).all()
    return frozenset(row.host for row in found if not row.disabled and is_up(row, now, down_time_s))


def silent(
    connection: Transaction | sa.Connection,
    hosts: Collection[str],
    now: datetime.datetime,
    down_time_s: float,
    binary: str = COMPUTE,
) -> frozenset[str]:
    """The hosts whose agent is down or has never registered."""
    if not hosts:
        return frozenset()
    found = connection.execute(_AGENTS, {"hosts": sorted(hosts), "which": binary})
    return frozenset(hosts) - {row.host for row in found if is_up(row, now, down_time_s)}


def of_hosts(
    connection: Transaction | sa.Connection, binary: str, names: Collection[str] | None
) -> dict[str, ServiceRow]:
    """Return the services of this program on these hosts, by host. :param names: None: on all hosts"""
    query = sa.select(SERVICES).where(SERVICES.c.binary == binary, sa.not_(SERVICES.c.deleted))
    if names is not None:
        query = query.where(SERVICES.c.host.in_(sorted(names)))
    rows = connection.execute(query.order_by(SERVICES.c.host)).all() if names or names is None else ()
    return {row.host: cast("ServiceRow", row) for row in rows}


def list_all(
    connection: sa.Connection, limit: int | None = None, marker: tuple[str, str] | None = None
) -> Sequence[ServiceRow]:
    """:param marker: binary and host of a service: only those after it"""
    query = sa.select(SERVICES).where(sa.not_(SERVICES.c.deleted)).order_by(SERVICES.c.binary, SERVICES.c.host)
    if marker is not None:
        binary, host = marker
        same = sa.and_(SERVICES.c.binary == binary, SERVICES.c.host > host)
        query = query.where(sa.or_(SERVICES.c.binary > binary, same))
    return cast("Sequence[ServiceRow]", connection.execute(query.limit(limit)).all())


def live(connection: sa.Connection, binary: str, now: datetime.datetime, down_time_s: float, topic: str) -> list[str]:
    """The hosts with a live service of this program and topic."""
    found = connection.execute(_LIVE, {"which": binary, "of_topic": topic, "since": now - seconds(down_time_s)})
    return [row.host for row in found]


def lowest_versions(connection: sa.Connection, now: datetime.datetime, down_time_s: float) -> dict[str, str]:
    """Return, by topic, the lowest API version of the live services. Topics without a live service are left out."""
    alive = (SERVICES.c.last_seen_up >= now - seconds(down_time_s), sa.not_(SERVICES.c.deleted))
    query = sa.select(SERVICES.c.topic, SERVICES.c.rpc_version).where(*alive).distinct()
    found: dict[str, str] = {}
    for topic, version in connection.execute(query):
        if topic in versions.CURRENT:
            spoken = version or versions.OLDEST[topic]
            found[topic] = versions.lower(topic, found.get(topic, spoken), spoken)
    return found


def set_disabled(
    tx: Transaction, host: str, binary: str, disabled: bool, reason: str | None, now: datetime.datetime
) -> ServiceRow:
    """:raises errors.NotFound: no such service"""
    service = get(tx, host, binary, lock=True)
    if service is None or service.deleted:
        raise errors.NotFound(kind="Service", name=f"{binary} on {host}")
    values = {"disabled": disabled, "disabled_reason": reason if disabled else None, "updated_at": now}
    _change(tx, service, values)
    return _get(tx, host, binary)


def force_down(tx: Transaction, host: str, binary: str, forced: bool, now: datetime.datetime) -> ServiceRow:
    """Count the service as down despite its heartbeats, or no longer. :raises errors.NotFound: no such service"""
    service = get(tx, host, binary, lock=True)
    if service is None or service.deleted:
        raise errors.NotFound(kind="Service", name=f"{binary} on {host}")
    _change(tx, service, {"forced_down": forced, "updated_at": now})
    return _get(tx, host, binary)


def alarms_to_change(connection: sa.Connection, alarms: Mapping[str, str]) -> list[str]:
    """Hosts of ``alarms`` (by host; "" for none) whose agent's record shows another alarm."""
    if not alarms:
        return []
    agents = connection.execute(_AGENTS, {"hosts": list(alarms), "which": COMPUTE})
    return [row.host for row in agents if _with_alarm(row, alarms[row.host])]


def set_alarm(tx: Transaction, host: str, alarm: str, now: datetime.datetime, incarnation: str | None = None) -> None:
    """Disable the host, or enable it if ``alarm`` is "". A host that an operator has disabled stays as it is.

    :param incarnation: change nothing unless this life of the agent serves the host
    """
    row = get(tx, host, COMPUTE, lock=True)
    if row is None or incarnation not in (None, row.incarnation):
        return
    change = _with_alarm(row, alarm)
    if change:
        _change(tx, row, {"updated_at": now, **change})


def _with_alarm(row: ServiceRow, alarm: str) -> Columns:
    """Columns to change."""
    ours = (row.disabled_reason or "").startswith(host_report.AUTO)
    if row.disabled and not ours:
        return {}
    shown = f"{host_report.AUTO}{alarm}"[:REASON_LENGTH] if alarm else None
    changed = (bool(alarm), shown) != (row.disabled, row.disabled_reason)
    return {"disabled": bool(alarm), "disabled_reason": shown} if changed and (alarm or ours) else {}


def newest_in_use(connection: sa.Connection, now: datetime.datetime, down_time_s: float) -> int:
    """Return the generation in which a host that takes builds last joined, was enabled, or was heard of again; 0: there is
    none.
    """
    return connection.execute(_IN_USE, {"since": now - seconds(down_time_s)}).scalar_one_or_none() or 0


def states(now: datetime.datetime, down_time_s: float) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    """Return what :func:`is_up` says, and whether a service is enabled, as columns: 1 or 0."""
    around = seconds(down_time_s)
    seen = SERVICES.c.last_seen_up.between(now - around, now + around)
    up = sa.case((sa.and_(sa.not_(SERVICES.c.forced_down), seen), 1), else_=0)
    return up, sa.case((SERVICES.c.disabled, 0), else_=1)


def states_of_hosts(
    connection: sa.Connection, now: datetime.datetime, down_time_s: float, names: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Return by host, of its agent, ``up`` or ``down``, and ``enabled`` or ``disabled``.

    :param names: of these hosts; None: of those that are down or disabled
    """
    up, enabled = states(now, down_time_s)
    these = sa.or_(up == 0, enabled == 0) if names is None else SERVICES.c.host.in_(sorted(names))
    query = sa.select(SERVICES.c.host, up, enabled).where(
        SERVICES.c.binary == COMPUTE, sa.not_(SERVICES.c.deleted), these
    )
    return {
        host: ["up" if is_up_ else "down", "enabled" if is_enabled else "disabled"]
        for host, is_up_, is_enabled in connection.execute(query.order_by(SERVICES.c.host))
    }


def is_up(service: _Alive, now: datetime.datetime, down_time_s: float) -> bool:
    """Return True if the service sent a heartbeat within ``down_time_s`` seconds and is not forced down."""
    if service.forced_down or service.last_seen_up is None:
        return False
    return abs((now - service.last_seen_up).total_seconds()) <= down_time_s
