# SPDX-License-Identifier: Apache-2.0
"""Quotas of projects, checked in the transaction that takes what they limit.

Called by the acceptances of builds, moves and volumes, and by :mod:`conductor_stub.operators.quotas`. Nothing is
counted in advance: usage is the sum of a project's live rows. A transaction that takes more locks the row of the
project in ``quotas``, sums, and writes. Transactions of one project therefore follow each other, and each sees what
the one before it has written. A transaction that gives back takes no lock. A project without limits has no row and
takes no lock either: the statement that looks for earlier commits of the same work, and for earlier requests with the
same client token, also returns the limits.

Rows of ``quotas`` are locked in the order of their names: after rows of instances and volumes, before pools and
generations. Rows without a project belong to the operator and are not limited.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import sqlalchemy as sa

from fleet import errors, move_states
from fleet.capacity import MB_PER_GB
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.catalog import QuotaRow
from fleet.objects.quota import RESOURCES, Limits, Quota

QUOTAS = models.quotas
INSTANCES = models.instances
MIGRATIONS = models.migrations
VOLUMES = models.volumes
GROUPS = models.instance_groups

#: Project and client token of a request.
Token = tuple[str, str]

#: Parts of the answer of :func:`look`.
_KEYS, _TOKENS, _OWN_LIMITS = range(3)
_PROJECTS = sa.bindparam("projects", expanding=True, type_=sa.String)
_LIMITS = tuple(QUOTAS.c[name] for name in RESOURCES)
_LOCKED = sa.select(QUOTAS).where(QUOTAS.c.project_id.in_(_PROJECTS)).order_by(QUOTAS.c.project_id).with_for_update()
_WITH_LIMITS = sa.select(QUOTAS).where(sa.or_(*(limit.is_not(None) for limit in _LIMITS))).order_by(QUOTAS.c.project_id)


def _larger(one: sa.ColumnElement[int], other: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.case((one > other, one), else_=other)


def _local_gb(
    root_gb: sa.ColumnElement[int], ephemeral_gb: sa.ColumnElement[int], swap_mb: sa.ColumnElement[int]
) -> sa.ColumnElement[int]:
    """``capacity.local_disk_gb`` of a row."""
    swap_gb = (sa.cast(swap_mb, sa.BigInteger) + (MB_PER_GB - 1)) // MB_PER_GB
    return sa.cast(root_gb, sa.BigInteger) + ephemeral_gb + swap_gb


def _while_resized(
    now: sa.ColumnElement[int], size: Callable[[Callable[[str], sa.ColumnElement[int]]], sa.ColumnElement[int]]
) -> sa.ColumnElement[int]:
    """Return the quota that a resize under way adds: until it is confirmed or reverted, the larger flavor counts.

    :param now: what the row counts
    :param size: what a flavor counts. It is called with a function that returns a field of the flavor.
    """

    def of(spec: sa.Column[object]) -> Callable[[str], sa.ColumnElement[int]]:
        return lambda name: sa.func.coalesce(spec[("flavor", name)].as_integer(), 0)

    larger = _larger(size(of(MIGRATIONS.c.old_spec)), size(of(MIGRATIONS.c.new_spec)))
    return sa.func.sum(sa.case((larger > now, larger - now), else_=0))


_OF_ROW = _local_gb(INSTANCES.c.root_gb, INSTANCES.c.ephemeral_gb, INSTANCES.c.swap_mb)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Resources that are checked together.

    :param key: primary key of what a request inserts, by which a repeated commit is recognised
    :param used: by project, the sum of each resource in the columns of its name; a project may have several rows
    :param requests: the table with the client tokens of earlier requests
    """

    resources: tuple[str, ...]
    key: sa.Column[object]
    used: sa.Select[object] | sa.CompoundSelect[object]
    requests: sa.Table | None = None


BUILDS = Kind(
    ("instances", "cores", "ram", "local_gb"),
    models.build_requests.c.reservation_id,
    sa.select(
        INSTANCES.c.project_id,
        sa.func.count().label("instances"),
        sa.func.sum(INSTANCES.c.vcpus).label("cores"),
        sa.func.sum(INSTANCES.c.memory_mb).label("ram"),
        sa.func.sum(_OF_ROW).label("local_gb"),
    )
    .where(INSTANCES.c.project_id.in_(_PROJECTS), sa.not_(INSTANCES.c.deleted))
    .group_by(INSTANCES.c.project_id)
    .union_all(
        sa.select(
            INSTANCES.c.project_id,
            sa.literal_column("0").label("instances"),
            _while_resized(INSTANCES.c.vcpus, lambda field: field("vcpus")).label("cores"),
            _while_resized(INSTANCES.c.memory_mb, lambda field: field("memory_mb")).label("ram"),
            _while_resized(
                _OF_ROW, lambda field: _local_gb(field("root_gb"), field("ephemeral_gb"), field("swap"))
            ).label("local_gb"),
        )
        .join_from(INSTANCES, MIGRATIONS, MIGRATIONS.c.instance_uuid == INSTANCES.c.uuid)
        .where(
            MIGRATIONS.c.status.in_(move_states.IN_PROGRESS),
            MIGRATIONS.c.migration_type == move_states.RESIZE,
            INSTANCES.c.project_id.in_(_PROJECTS),
            sa.not_(INSTANCES.c.deleted),
        )
        .group_by(INSTANCES.c.project_id)
    ),
    models.build_requests,
)
#: A snapshot is no volume, and its size counts. A volume that is being extended counts with its new size.
STORAGE = Kind(
    ("volumes", "gigabytes"),
    VOLUMES.c.uuid,
    sa.select(
        VOLUMES.c.project_id,
        sa.func.sum(sa.case((VOLUMES.c.snapshot_of.is_(None), 1), else_=0)).label("volumes"),
        sa.func.sum(_larger(VOLUMES.c.size_gb, VOLUMES.c.claimed_gb)).label("gigabytes"),
    )
    .where(VOLUMES.c.project_id.in_(_PROJECTS), sa.not_(VOLUMES.c.deleted))
    .group_by(VOLUMES.c.project_id),
    models.volume_requests,
)
SERVER_GROUPS = Kind(
    ("server_groups",),
    GROUPS.c.uuid,
    sa.select(GROUPS.c.project_id, sa.func.count().label("server_groups"))
    .where(GROUPS.c.project_id.in_(_PROJECTS))
    .group_by(GROUPS.c.project_id),
)
KINDS = (BUILDS, STORAGE, SERVER_GROUPS)


class Headroom:
    """The quota that projects have left. It is valid within the transaction that has locked their rows."""

    def __init__(self, limits: Mapping[str, Quota], used: Mapping[str, collections.Counter[str]]) -> None:
        """:param limits: of the projects that have some; all others may take anything"""
        self._limits = limits
        self._used = used

    def take(self, project_id: str | None, **asked: int) -> None:
        """Add the amounts of a request to the usage that later requests of the transaction see.

        :param asked: amounts by resource
        :raises errors.QuotaExceeded: the usage is unchanged
        """
        project = project_id or ""
        if project not in self._limits:
            return
        limits, used = self._limits[project].to_wire(), self._used[project]
        exceeded = [
            {"resource": resource, "quota": limits[resource], "used": used[resource], "asked": number}
            for resource, number in asked.items()
            if number > 0 and 0 <= limits[resource] < used[resource] + number
        ]
        if exceeded:
            raise errors.QuotaExceeded(project_id=project_id, exceeded=exceeded)
        used.update(asked)


class _LookedUp(QuotaRow, Protocol):
    """A row of the answer to :func:`look`: of a project with limits of its own, of a key, or of a client token."""

    part: int
    name: str


class Found(NamedTuple):
    """The first reading of a transaction that takes quota.

    :param keys: those that exist, because an earlier commit of the same work has inserted them
    :param tokens: project and client token of earlier requests
    :param headroom: what the projects may still take
    """

    keys: frozenset[str]
    tokens: frozenset[Token]
    headroom: Headroom


def look(
    tx: Transaction,
    kind: Kind,
    projects: Iterable[str | None],
    default: Quota,
    keys: Collection[str] = (),
    tokens: Collection[Token] = (),
) -> Found:
    """Look for ``keys`` and ``tokens``, and for what the projects may still take of ``kind``.

    With limits, two more statements follow the first one.
    """
    names = sorted({name for name in projects if name})
    owners, asked = sorted({owner for owner, _token in tokens}), sorted({token for _owner, token in tokens})
    wanted = {"projects": names, "keys": list(keys), **({"owners": owners, "tokens": asked} if tokens else {})}
    of_part: dict[int, list[_LookedUp]] = {_KEYS: [], _TOKENS: [], _OWN_LIMITS: []}
    for row in cast("Iterable[_LookedUp]", tx.execute(_looked_up(kind, bool(tokens)), wanted)):
        of_part[row.part].append(row)
    own = {row.project_id: _own(row) for row in of_part[_OWN_LIMITS]}
    limited = [name for name in names if default.with_own(own.get(name, {})).limits_any(kind.resources)]
    left = Headroom(_locked(tx, limited, default), _used(tx, kind, limited)) if limited else Headroom({}, {})
    used = frozenset((row.project_id, row.name) for row in of_part[_TOKENS])
    return Found(frozenset(row.name for row in of_part[_KEYS]), used.intersection(tokens), left)


def show(connection: Transaction | sa.Connection, project_id: str) -> tuple[dict[str, int], collections.Counter[str]]:
    """The limits that a project has of its own, and what it uses of each resource."""
    used: collections.Counter[str] = collections.Counter()
    for kind in KINDS:
        for sums in _used(connection, kind, [project_id]).values():
            used.update(sums)
    return own(connection, project_id), used


def own(connection: Transaction | sa.Connection, project_id: str) -> dict[str, int]:
    """The limits that a project has of its own."""
    row = connection.execute(sa.select(QUOTAS).where(QUOTAS.c.project_id == project_id)).one_or_none()
    return {} if row is None else _own(row)


def list_all(connection: sa.Connection) -> dict[str, dict[str, int]]:
    """The limits of the projects that have some of their own, by project."""
    return {row.project_id: _own(row) for row in connection.execute(_WITH_LIMITS)}


def change(tx: Transaction, project_id: str, limits: Limits) -> None:
    """Set limits. Others of the project stay. What it has above a limit stays, and it gets no more."""
    if tx.execute(_LOCKED, {"projects": [project_id]}).first() is None:
        tx.insert(QUOTAS, {"project_id": project_id, **limits})
    elif limits:
        tx.update(QUOTAS, project_id, limits)


def remove(tx: Transaction, project_id: str) -> None:
    """Remove the limits that a project has of its own, if it has some."""
    tx.execute(QUOTAS.delete().where(QUOTAS.c.project_id == project_id))


@functools.cache
def _looked_up(kind: Kind, with_tokens: bool) -> sa.CompoundSelect[Any]:
    """Answer three questions by one statement, so that projects without limits need no statement of their own."""

    def part(
        number: int, project: sa.ColumnElement[Any], name: sa.ColumnElement[Any], limits: Sequence[Any]
    ) -> sa.Select[Any]:
        return sa.select(
            sa.literal_column(str(number)).label("part"), project.label("project_id"), name.label("name"), *limits
        )

    nobody, no_limits = sa.null(), [sa.cast(sa.null(), sa.Integer).label(name) for name in RESOURCES]
    parts = [
        part(_OWN_LIMITS, QUOTAS.c.project_id, nobody, _LIMITS).where(QUOTAS.c.project_id.in_(_PROJECTS)),
        part(_KEYS, nobody, kind.key, no_limits).where(kind.key.in_(sa.bindparam("keys", expanding=True))),
    ]
    if with_tokens and kind.requests is not None:
        requests = kind.requests.c
        parts.append(
            part(_TOKENS, requests.project_id, requests.client_token, no_limits).where(
                requests.project_id.in_(sa.bindparam("owners", expanding=True)),
                requests.client_token.in_(sa.bindparam("tokens", expanding=True)),
            )
        )
    return sa.union_all(*parts)


def _locked(tx: Transaction, projects: Collection[str], default: Quota) -> dict[str, Quota]:
    """Lock the rows of projects; return the limits of each. A project that has only the defaults gets a row."""
    rows = tx.execute(_LOCKED, {"projects": projects}).all()
    found = {row.project_id: default.with_own(_own(row)) for row in rows}
    for project in projects:
        if project not in found:
            # If another transaction inserts it at the same time, this one runs again.
            tx.insert(QUOTAS, {"project_id": project})
            found[project] = default
    return found


def _used(
    connection: Transaction | sa.Connection, kind: Kind, projects: Collection[str]
) -> dict[str, collections.Counter[str]]:
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in connection.execute(kind.used, {"projects": projects}):
        found[row.project_id].update({each: int(getattr(row, each)) for each in kind.resources})
    return found


def _own(row: QuotaRow) -> dict[str, int]:
    return {name: limit for name in RESOURCES if (limit := getattr(row, name)) is not None}
