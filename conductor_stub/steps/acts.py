# SPDX-License-Identifier: Apache-2.0
"""Administrative acts: a change, its record in the ledger, and one line in the log.

The endpoints of operators change things through it. What is recorded is the difference between what a reader returns
before and after the change, in one transaction. So a record has the real change, and each change has a record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from oslo_log import log as logging
from oslo_utils import uuidutils

from fleet import errors, failpoints
from fleet.clock import Clock
from fleet.context import RequestContext
from fleet.db.engine.database import Database, Transaction
from fleet.db.upkeep import acts
from fleet.json_codec import JSONObject

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
Result = TypeVar("Result")
#: Reads what may change: a mapping, a frozen class, or ``errors.NotFound`` if it does not exist.
Reader = Callable[[Transaction], object]


class Acts:
    """:param clock: the database's time"""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def write(
        self,
        context: RequestContext,
        act: str,
        subject: str,
        shown: Reader,
        work: Callable[Concatenate[Transaction, P], Result],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        """Run ``work(transaction, …)`` as ``Database.write`` does, and record what it has changed.

        ``work`` is not repeated if the record of its first run is there: a removal would find nothing any more.

        :param act: for example ``flavor.create``
        :param subject: what is changed, as an operator names it
        :param shown: returns what an operator sees of the subject
        """
        key, by = uuidutils.generate_uuid(), _sender(context)
        results: list[Result] = []

        @failpoints.commits_all([work])
        def acted(tx: Transaction) -> tuple[Result, JSONObject]:
            earlier = acts.of_key(tx, key) if results else None
            if earlier is not None:
                return results[-1], earlier.changes
            before = _fields(tx, shown)
            result = work(tx, *args, **kwargs)
            results.append(result)
            changes = difference(before, _fields(tx, shown))
            if changes:
                acts.record(tx, key, act, subject, changes, by, self._clock())
            return result, changes

        result, changes = self._database.write(acted)
        log(context, act, subject, told(changes))
        return result


def log(context: RequestContext, act: str, subject: str, outcome: str) -> None:
    """Write the line of an act."""
    by = _sender(context)
    user, project = by["user_id"] or "-", by["project_id"] or "-"
    LOG.info("Act %s: %s (user %s, project %s, request %s): %s", act, subject, user, project, by["request_id"], outcome)


def difference(before: Mapping[str, object], after: Mapping[str, object]) -> JSONObject:
    """The fields that differ, each with its values before and after; None for one that is missing."""
    names = {**before, **after}
    pairs = {name: [before.get(name), after.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def told(changes: JSONObject) -> str:
    """Changes in one line: ``disabled: False -> True, disabled_reason: None -> 'new disk'``."""
    pairs = [f"{name}: {before!r} -> {after!r}" for name, (before, after) in changes.items()]
    return ", ".join(pairs) or "nothing changes"


def _sender(context: RequestContext) -> dict[str, str | None]:
    user = context.user_id or context.user_name
    return {"user_id": user, "project_id": context.project_id, "request_id": context.request_id}


def _fields(tx: Transaction, shown: Reader) -> JSONObject:
    try:
        found = shown(tx)
    except errors.NotFound:
        return {}
    if found is None:
        return {}
    return dict(found) if isinstance(found, Mapping) else _plain(found)


def _plain(found: Any) -> JSONObject:
    wire: JSONObject = found.to_wire() if hasattr(found, "to_wire") else dataclasses.asdict(found)
    return wire
