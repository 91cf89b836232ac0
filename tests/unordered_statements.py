# SPDX-License-Identifier: Apache-2.0
"""The SELECTs of ``fleet/db`` whose rows come in any order, each with the reason why this decides nothing.

A name is that of a constant, ``module.NAME``, or of the function that makes the statement, ``module:function``.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import sqlalchemy as sa

import fleet.db
from fleet.db.engine.prepared_query import PreparedQuery
from tests.statement_order import is_total

_CACHE = "the cache of the scheduler keeps its rows in an order of its own"
_ONE = "there is one row at most, which the reader checks"
_SET = "read into a set"
_DICT = "read into a dict by key"
REASONS = {
    "hosts.aggregates:create": _ONE,
    "instances.moves._ALIVE": "a subquery of _UNCONFIRMED, which looks only whether a host is in it",
    "operations.recoveries._BY_STATUS": _DICT,
    "operations.recoveries._COUNTS": _DICT,
    "operations.recoveries._WITH_GUESTS": _SET,
    "operations.silence._UNCOUNTED": _SET,
    "feed.feed:_follow": _CACHE,
    "feed.feed:_read_heartbeats": _CACHE,
    "feed.feed:changed": _CACHE,
    "feed.feed:there": _CACHE,
    "catalog.groups:_require_free": "only whether there is one",
    "hosts.hosts:_after": _ONE,
    "hosts.hardware:_held": "ordered by uuids, which an instance and a migration never share",
    "hosts.heartbeats._FOUND": "read into a dict by host; of a host, a heartbeat owns one row",
    "instances.instance_search._ROWS": "other statements are made of it",
    "instances.instances.JOINED": "other statements are made of it",
    "instances.instance_listing.JOINED": "other statements are made of it",
    "instances.instance_listing._BRIEF_QUERY": "other statements are made of it",
    "instances.instances._MOVING": _DICT,
    "instances.instances._PLACED": _DICT,
    "schema.migration:sync": "Alembic reads its one row",
    "instances.moves._OF_INSTANCE": _ONE,
    "instances.moves:of_instance": _ONE,
    "nova.api_queries:_aggregates": "read into dicts by aggregate; the hosts of each are sorted",
    "nova.api_queries:flavor": "the extra specs, in the order of their names, of one flavor",
    "nova.api_queries:group": "policies and members of one group, each once",
    "nova.api_queries:layout": "read into a dict by host",
    "nova.api_queries:request_spec": _ONE,
    **dict.fromkeys(
        (
            *("nova.cell_queries._COMPUTE_SERVICES", "nova.cell_queries._LIVE_NODES", "nova.cell_queries._PLACED"),
            *("nova.in_parts:rows", "nova.cell_queries._CREATED", "nova.cell_queries._UPDATED"),
            *(
                "nova.cell_queries:changed_nodes",
                "nova.cell_queries:heartbeats",
                "nova.cell_queries:of_host",
                "nova.cell_queries:services",
            ),
            *(
                "nova.placement_queries:all_details",
                "nova.placement_queries:generations",
                "nova.placement_queries:names",
                "nova.placement_queries:providers",
                "nova.placement_queries:usage",
            ),
        ),
        _CACHE,
    ),
    "instances.waiting.queued_builds._KNOWN": _DICT,
    "instances.waiting.queued_builds._STILL_DUE": _SET,
    "catalog.quotas:_used": "whole numbers, added up by project",
    "catalog.quotas:look": "read into sets and a dict by project",
    "upkeep.retention:read": _DICT,
    "instances.waiting.room_changes._CHANGED_AGGREGATES": "read into a dict by host, the newest generation of each",
    "instances.waiting.room_changes._CHANGED_NODES": _SET,
    "instances.waiting.room_changes._CHANGED_SERVICES": "read into a dict by host, the newest generation of each",
    "instances.waiting.room_changes._THESE": _SET,
    "instances.waiting.room_queue._RESTING": _DICT,
    "schema.schema:_version": _ONE,
    "hosts.services:lowest_versions": "the lowest version by topic",
    "hosts.services:require_host": "only whether there is one",
    "hosts.usage._BY_PLACE_AND_SORT": "whole numbers, added up by node",
    "hosts.usage._BY_SORT": "whole numbers, added up",
    "upkeep.use_history:read": "whole numbers, added up",
}
#: These run the statements of other modules.
_RUNNERS = ("database", "transaction", "prepared_query", "reader")
_Select = sa.Select | sa.CompoundSelect


def constants() -> dict[str, _Select]:
    """Return the statements that are constants of modules of ``fleet/db``, by name."""
    found: dict[str, _Select] = {}
    for each in pkgutil.walk_packages(fleet.db.__path__, "fleet.db."):
        if ".migrations" not in each.name:
            found.update(_of_module(each.name))
    return found


def _of_module(name: str) -> Iterator[tuple[str, _Select]]:
    for constant, value in vars(importlib.import_module(name)).items():
        statement = value._query if isinstance(value, PreparedQuery) else value
        if isinstance(statement, _Select):
            yield f"{name.removeprefix('fleet.db.')}.{constant}", statement


class Watch:
    """Raises if a statement of ``fleet/db`` runs that has no total order, and no reason here."""

    def __init__(self) -> None:
        self._known = {id(statement): name for name, statement in constants().items()}
        self._judged: set[tuple[str, int | None]] = set()

    def __enter__(self) -> Watch:
        sa.event.listen(sa.Engine, "before_execute", self._check)
        return self

    def __exit__(self, *_raised: object) -> None:
        sa.event.remove(sa.Engine, "before_execute", self._check)

    def _check(self, _connection: Any, statement: Any, *_rest: object) -> None:
        if not isinstance(statement, _Select):
            return
        name = self._known.get(id(statement)) or _maker(sys._getframe(1))
        if name is None or name in REASONS or self._is_judged(name, statement):
            return
        assert is_total(statement), (
            f"{name}: the rows come in any order. Add columns to the ORDER BY until it is unique, or a reason to "
            f"tests/unordered_statements.py"
        )

    def _is_judged(self, name: str, statement: Any) -> bool:
        """Return True if a statement with these clauses was judged before: most run many times."""
        clauses = statement._generate_cache_key()
        key = name, None if clauses is None else hash(clauses.key)
        if key in self._judged:
            return True
        if clauses is not None:
            self._judged.add(key)
        return False


def _maker(frame: FrameType | None) -> str | None:
    """Return the function of ``fleet/db`` that runs the statement; None if another package does."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("fleet.db.") and module.removeprefix("fleet.db.engine.") not in _RUNNERS:
            return f"{module.removeprefix('fleet.db.')}:{frame.f_code.co_name}"
        frame = frame.f_back
    return None
