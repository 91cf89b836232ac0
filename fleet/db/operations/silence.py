# SPDX-License-Identifier: Apache-2.0
"""Hosts that are silent: how many there are in the fleet and in each of its domains.

Called by modules of :mod:`conductor_stub.recovery`.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.tables import models
from fleet.db.tables.operations.recovery import RecoveryDomainRow
from fleet.objects import host_report

DOMAINS = models.recovery_domains
SERVICES = models.services
#: Name of the domain that has all hosts.
FLEET = ""

_WHY_DISABLED = sa.func.coalesce(SERVICES.c.disabled_reason, "")
#: The host counts in the share of silent hosts. Hosts that an operator has stopped do not count.
_COUNTS_AS_SILENT = sa.and_(
    SERVICES.c.last_seen_up.is_not(None),
    sa.not_(SERVICES.c.forced_down),
    sa.or_(sa.not_(SERVICES.c.disabled), sa.func.substr(_WHY_DISABLED, 1, len(host_report.AUTO)) == host_report.AUTO),
)
_IS_AGENT = sa.and_(SERVICES.c.binary == services.COMPUTE, sa.not_(SERVICES.c.deleted))
_AGENTS = (
    sa.select(
        *(SERVICES.c.host, SERVICES.c.last_seen_up, SERVICES.c.forced_down),
        sa.case((_COUNTS_AS_SILENT, True), else_=False).label("counts"),
    )
    .where(_IS_AGENT)
    .order_by(SERVICES.c.host)
)
_UNCOUNTED = sa.select(SERVICES.c.host).where(_IS_AGENT, sa.not_(_COUNTS_AS_SILENT))
_COUNTED = sa.select(sa.func.count()).where(_IS_AGENT, _COUNTS_AS_SILENT)
_DOMAINS = sa.select(DOMAINS).order_by(DOMAINS.c.name)
_DOMAIN = sa.select(DOMAINS).where(DOMAINS.c.name == FLEET)


class Agent(Protocol):
    """The columns of a service that :func:`down_agents` reads."""

    host: str
    last_seen_up: datetime.datetime | None
    forced_down: bool
    #: In the share of silent hosts. Hosts that an operator has stopped do not.
    counts: bool


def down_agents(connection: Transaction | sa.Connection, now: datetime.datetime, down_time_s: float) -> Sequence[Agent]:
    """The agents of hosts that are down (``services.is_up``). Of a large fleet they are few: a look reads no others."""
    is_up, _is_enabled = services.states(now, down_time_s)
    return cast("Sequence[Agent]", connection.execute(_AGENTS.where(is_up == 0)).all())


def counted(connection: Transaction | sa.Connection) -> int:
    """Return how many hosts of the fleet count in the share of silent hosts."""
    number: int = connection.execute(_COUNTED).scalar_one()
    return number


def uncounted(connection: Transaction | sa.Connection) -> set[str]:
    """Return the hosts that do not count."""
    return set(connection.execute(_UNCOUNTED).scalars())


def domains(connection: Transaction | sa.Connection) -> dict[str, RecoveryDomainRow]:
    """Return the domains by name. The result is empty until a conductor has looked for the first time."""
    return {row.name: row for row in cast("Iterable[RecoveryDomainRow]", connection.execute(_DOMAINS))}


def lock_fleet(tx: Transaction, now: datetime.datetime) -> RecoveryDomainRow:
    """The row of the fleet: conductors begin recoveries and moves one at a time."""
    locked = _DOMAIN.with_for_update()
    row = cast("RecoveryDomainRow | None", tx.execute(locked).one_or_none())
    if row is None:
        tx.insert(DOMAINS, {"name": FLEET, "looked_at": now, "calm_since": now})
        row = cast("RecoveryDomainRow", tx.execute(locked).one())
    return row


def set_paused(tx: Transaction, paused: bool, now: datetime.datetime) -> None:
    """Pause or resume all recoveries."""
    lock_fleet(tx, now)
    tx.update(DOMAINS, FLEET, {"paused": paused})


def note_domain(tx: Transaction, name: str, is_new: bool, **values: object) -> None:
    if is_new:
        tx.insert(DOMAINS, {"name": name, **values})
    else:
        tx.update(DOMAINS, name, values)


def forget_domains(tx: Transaction, names: Collection[str]) -> None:
    if names:
        tx.execute(DOMAINS.delete().where(DOMAINS.c.name.in_(sorted(names))))
