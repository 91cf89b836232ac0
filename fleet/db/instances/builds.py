# SPDX-License-Identifier: Apache-2.0
"""Builds: instance rows from their acceptance until a host runs the guest.

Called by modules of :mod:`conductor_stub.builds` and :mod:`conductor_stub.operators`. ``fleet.states`` draws their
life.
"""

from __future__ import annotations

import collections
import datetime
import functools
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from fleet import json_codec, states
from fleet.db.engine.database import Transaction
from fleet.db.engine.transaction import EARLY_COMMIT
from fleet.db.engine.under_way import UnderWay
from fleet.db.hosts import services
from fleet.db.instances.instances import INSTANCES, NOTHING_CLAIMED, live
from fleet.db.tables import models
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Place

REQUESTS = models.build_requests
QUEUED = models.queued_builds

#: Key of ``shelved``, or of ``details`` of an instance that was never shelved: the host that may still have its guest.
GUEST_ON = "guest_on"
#: Columns of a row that was just accepted, besides those of its request.
_NOT_PLACED: Mapping[str, object] = {
    **NOTHING_CLAIMED,
    **dict.fromkeys(
        ("launched_at", "resized_spec", "details", "chosen", "interfaces", "locked_by", "locked_reason", "shelved")
    ),
    "power_state": 0,
    "earlier_attempts": 0,
}
#: Columns of a request without a client token.
_NO_TOKEN: Mapping[str, object] = {"project_id": "", "client_token": None, "fingerprint": None}
_WANTED = sa.bindparam("wanted", type_=sa.String)
_NOW = sa.bindparam("now", type_=models.Timestamp)

_REQUEST_OF_TOKEN = sa.select(REQUESTS.c.reservation_id, REQUESTS.c.fingerprint).where(
    REQUESTS.c.project_id == sa.bindparam("of_project"), REQUESTS.c.client_token == sa.bindparam("token")
)
_OF_REQUEST = (
    sa.select(INSTANCES.c.uuid, INSTANCES.c.name)
    .where(INSTANCES.c.reservation_id == _WANTED)
    .order_by(INSTANCES.c.launch_index, INSTANCES.c.uuid)
)
_FAILED_OF_REQUEST = (
    sa.select(sa.func.count())
    .select_from(INSTANCES)
    .where(INSTANCES.c.reservation_id == _WANTED, INSTANCES.c.vm_state == states.ERROR)
)
_SET_STEP = INSTANCES.update().where(INSTANCES.c.uuid.in_(sa.bindparam("keys", expanding=True)))
_PLACES_OF = sa.bindparam("places_of", type_=sa.Text)
_PATH = sa.literal_column("'$.\"'").concat(INSTANCES.c.uuid).concat(sa.literal_column("'\"'"))
_CHOOSE = INSTANCES.update().where(
    INSTANCES.c.uuid.in_(sa.bindparam("keys", expanding=True)),
    INSTANCES.c.attempt == sa.bindparam("at", type_=sa.Integer),
    INSTANCES.c.task_state == states.PLACING,
)
_POSTPONE_DELETION = INSTANCES.update().where(
    INSTANCES.c.uuid == _WANTED,
    INSTANCES.c.task_state == states.DELETING,
    INSTANCES.c.step_deadline == sa.bindparam("was_due"),
)

_UNDER_WAY = (
    sa.select(
        INSTANCES.c.task_state,
        sa.func.count().label("number"),
        # A build that has waited for room, or was shelved, is older than its present time limit.
        sa.func.min(
            sa.case((sa.and_(QUEUED.c.instance_uuid.is_(None), INSTANCES.c.shelved.is_(None)), INSTANCES.c.created_at))
        ).label("oldest"),
    )
    .select_from(INSTANCES.outerjoin(QUEUED, QUEUED.c.instance_uuid == INSTANCES.c.uuid))
    .where(
        sa.not_(INSTANCES.c.deleted),
        INSTANCES.c.vm_state == states.BUILDING,
        INSTANCES.c.task_state.in_(states.BUILD_STEPS),
    )
    .group_by(INSTANCES.c.task_state)
    .order_by(INSTANCES.c.task_state)
)
_PAST_DEADLINE = live(
    INSTANCES.c.vm_state == states.BUILDING,
    INSTANCES.c.task_state.in_(states.BUILD_STEPS),
    INSTANCES.c.deadline <= _NOW,
).limit(sa.bindparam("at_most"))
#: Builds that still have time, and deletions.
_OVERDUE_OR_SPAWNING = (
    live(
        sa.or_(INSTANCES.c.step_deadline <= _NOW, INSTANCES.c.task_state == states.SPAWNING),
        sa.or_(INSTANCES.c.task_state == states.DELETING, INSTANCES.c.deadline.is_(None), INSTANCES.c.deadline > _NOW),
        INSTANCES.c.step_deadline.is_not(None),
        # Both columns of the index: few of all instances have such a task.
        INSTANCES.c.vm_state.in_(states.PRESENT),
        INSTANCES.c.task_state.in_((*states.BUILD_STEPS, states.DELETING)),
    )
    .order_by(None)
    .order_by(INSTANCES.c.step_deadline, INSTANCES.c.created_at, INSTANCES.c.launch_index, INSTANCES.c.uuid)
    .limit(sa.bindparam("at_most"))
)


#: Builds that have ended while a host may have their guest.
_LEFT_GUESTS = (
    live(
        INSTANCES.c.vm_state.in_((states.ERROR, states.SHELVED_OFFLOADED)),
        INSTANCES.c.task_state.is_(None),
        INSTANCES.c.step_deadline <= _NOW,
    )
    .order_by(None)
    .order_by(INSTANCES.c.step_deadline, INSTANCES.c.uuid)
    .limit(sa.bindparam("at_most"))
)


class LeftGuest(Protocol):
    """The columns of an instance that :func:`host_of_left_guest` reads."""

    shelved: JSONObject | None
    details: JSONObject | None


class OverdueBuild(RequestedInstance, Protocol):
    """A build whose step has a deadline."""

    step_deadline: datetime.datetime


class TokenRequest(Protocol):
    """A request that has a client token."""

    reservation_id: str
    fingerprint: str


class NamedInstance(Protocol):
    """An instance of a request."""

    uuid: str
    name: str


def create(tx: Transaction, request: Mapping[str, object], rows: Sequence[JSONMapping]) -> None:
    """Insert a build request and its instances at the end of the transaction."""
    tx.defer_insert(REQUESTS, {**_NO_TOKEN, **request})
    for row in rows:
        tx.defer_insert(INSTANCES, row)


def accepted(request: Mapping[str, object], row: Mapping[str, object]) -> RequestedInstance:
    """An instance as :func:`create` writes it, in the form of a row that was read."""
    return cast("RequestedInstance", types.SimpleNamespace(**{**_NOT_PLACED, **row, **request}))


def request_of_token(connection: Transaction | sa.Connection, project_id: str, token: str) -> TokenRequest | None:
    """``reservation_id`` and ``fingerprint`` of the project's request with this client token."""
    return cast(
        "TokenRequest | None",
        connection.execute(_REQUEST_OF_TOKEN, {"of_project": project_id, "token": token}).one_or_none(),
    )


def of_request(connection: Transaction | sa.Connection, reservation_id: str) -> Sequence[NamedInstance]:
    """``uuid`` and ``name`` of all instances of a request, also deleted ones, in their order."""
    return cast("Sequence[NamedInstance]", connection.execute(_OF_REQUEST, {"wanted": reservation_id}).all())


def failed_of_request(connection: sa.Connection, reservation_id: str) -> int:
    """Return the number of builds of the request that are in ERROR."""
    number: int = connection.execute(_FAILED_OF_REQUEST, {"wanted": reservation_id}).scalar_one()
    return number


def choose(tx: Transaction, chosen: Mapping[str, tuple[int, Sequence[Place]]]) -> None:
    """Write which host may claim each build. A build that has moved on since stays as it is.

    :param chosen: by uuid, the attempt and the places, the host that gets the order first
    """
    by_attempt: dict[int, dict[str, object]] = collections.defaultdict(dict)
    for uuid, (attempt, places) in sorted(chosen.items()):
        by_attempt[attempt][uuid] = [each.to_wire() for each in places]
    statement, most = _choose(tx.dialect)
    for attempt, places_of in sorted(by_attempt.items()):
        uuids = list(places_of)
        for first in range(0, len(uuids), most):
            some = {uuid: places_of[uuid] for uuid in uuids[first : first + most]}
            tx.execute(statement, {"keys": list(some), "at": attempt, "places_of": json_codec.dumps(some)})


@functools.cache
def _choose(dialect: str) -> tuple[sa.Update, int]:
    """A statement for builds of one attempt, and how many it takes. Their places are one parameter: JSON, by uuid."""
    if dialect != "postgresql":
        # The parameter is parsed again for every row.
        return _CHOOSE.values(chosen=sa.func.json_extract(_PLACES_OF, _PATH)), 16
    # Parsed once, because it is cast to binary JSON.
    places = sa.cast(sa.cast(_PLACES_OF, postgresql.JSONB).op("->")(INSTANCES.c.uuid), sa.JSON)
    # If the commit is lost, no host can claim, and the sweeper places the builds again. There is no statement at the end
    # that could carry the setting.
    commit = sa.select(EARLY_COMMIT).scalar_subquery()
    return _CHOOSE.where(commit == "off").values(chosen=places), 1_000


def set_columns(tx: Transaction, uuids: Collection[str], values: Mapping[str, object]) -> None:
    """Set ``values`` on rows that this transaction has locked."""
    tx.execute(_SET_STEP, {**values, "keys": sorted(uuids)})


def postpone_deletion(tx: Transaction, row: RequestedInstance, due: datetime.datetime, now: datetime.datetime) -> bool:
    """Compare and set: repeat the order to delete at ``due``; False if another sweeper was first."""
    expected = {"wanted": row.uuid, "was_due": row.step_deadline}
    return tx.execute(_POSTPONE_DELETION, {"step_deadline": due, "updated_at": now, **expected}).rowcount == 1


def under_way(connection: sa.Connection) -> dict[str, UnderWay]:
    """Return, by step, the ``number`` of builds, and the time at which the ``oldest`` of them was accepted."""
    return cast("dict[str, UnderWay]", {row.task_state: row for row in connection.execute(_UNDER_WAY)})


def past_deadline(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[RequestedInstance]:
    """Builds that must have ended by now, oldest first."""
    return cast("Sequence[RequestedInstance]", connection.execute(_PAST_DEADLINE, {"now": now, "at_most": limit}).all())


def overdue(
    connection: sa.Connection, now: datetime.datetime, down_time_s: float, limit: int
) -> tuple[list[OverdueBuild], list[OverdueBuild]]:
    """Builds and deletions whose step deadline has passed, the most urgent first; and builds that a silent host spawns."""
    rows = cast(
        "Sequence[OverdueBuild]", connection.execute(_OVERDUE_OR_SPAWNING, {"now": now, "at_most": limit}).all()
    )
    spawning = [row for row in rows if row.step_deadline > now]
    silent = services.silent(connection, {row.host for row in spawning if row.host}, now, down_time_s)
    return [row for row in rows if row.step_deadline <= now], [row for row in spawning if row.host in silent]


def host_of_left_guest(row: LeftGuest) -> str | None:
    """The host that may still have a guest of an instance, which is on no host."""
    noted: str | None = (row.shelved or row.details or {}).get(GUEST_ON)
    return noted


def left_guests(connection: sa.Connection, now: datetime.datetime, limit: int) -> Sequence[RequestedInstance]:
    """Instances without a host whose last one is to be ordered again to remove their guest, the most urgent first."""
    return cast("Sequence[RequestedInstance]", connection.execute(_LEFT_GUESTS, {"now": now, "at_most": limit}).all())
