# SPDX-License-Identifier: Apache-2.0
"""Carries a change out once, and answers a further copy of its message with the outcome of the first one.

A driver publishes a message again if it loses the connection before the broker confirms. The copies have the same unique
id, and any conductor may receive each of them::

    first copy    take ── handle ── reply ── keep the outcome
    another copy  taken already ── wait for the outcome ── reply with it; no reply if none appears

The record is in the database, and a row names the content as well as the id. Only changes of the namespace ``operator`` are
recorded. Requests for servers and volumes have a token, ``terminate_instances`` and the steps of agents find the row as
they left it, and reads change nothing. Called by :mod:`fleet.rpc.trust.admission`.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import oslo_messaging
from oslo_log import log as logging
from oslo_utils import uuidutils

from fleet import errors, json_codec
from fleet.rpc import deferred
from fleet.rpc.trust import replay_protection, signing
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

#: Seconds for which an outcome is kept. A copy expires at the broker with the timeout of its call.
GOOD_FOR_S = 600.0
#: Characters of an outcome as JSON. A larger one is not kept.
MOST_CHARACTERS = 60_000
#: Seconds between the looks of a copy whose first one is still handled, 6 s in all.
PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0)
#: Methods of the namespace with a token of their own: clients send one with each call.
WITH_TOKEN = frozenset({"create_volumes", "manage_volume"})
#: Reads that :func:`replay_protection.changes_something` counts as changes: a replay must not get their answers.
READS = frozenset(
    {
        *("get_console_output", "host_table", "live_obstacles", "newest_faults", "requests_of", "search_instances"),
        *("search_volumes", "suggest_balance", "use_over_time"),
    }
)


class Record(Protocol):
    """The changes that all processes of a service have taken, and their outcomes."""

    def take(self, key: str, holder: str, good_for_s: float) -> bool:
        """Return False if another holder has taken the message."""

    def keep(self, key: str, outcome: str) -> None:
        """Store the outcome of a message that was taken."""

    def outcome(self, key: str) -> str | None:
        """Return the outcome; None if there is none yet."""


def is_recorded(namespace: object, method: object) -> bool:
    """Return True for a change that a second copy of its message would repeat."""
    if namespace != "operator" or method in WITH_TOKEN or method in READS:
        return False
    return replay_protection.changes_something("operator", str(method))


def key_of(incoming: Any) -> str | None:
    """Return the key of a change, which its copies share and no other message has; None if the driver gives no unique id."""
    message, context, unique_id = incoming.message, incoming.ctxt, getattr(incoming, "unique_id", None)
    if not isinstance(unique_id, str) or not is_recorded(message.get("namespace"), message.get("method")):
        return None
    caller = [context.get(name) for name in ("project_id", "user", "is_admin")] if isinstance(context, Mapping) else []
    return hashlib.sha256(json_codec.dumps([unique_id, message, caller]).encode()).hexdigest()


class RepeatedChanges:
    """Thread-safe."""

    def __init__(self, record: Record, sleep: Callable[[float], object] = time.sleep) -> None:
        self._record = record
        self._sleep = sleep

    def answer(self, key: str, handle: Callable[[], object]) -> object:
        """Return the answer of ``handle``, or what it was for the first copy of the message.

        :raises oslo_messaging.ExpectedException: errors.FleetError: as ``handle`` did
        :raises signing.Repeated: the outcome of the first copy is not known, so this copy gets no answer
        """
        if not self._record.take(key, uuidutils.generate_uuid(), GOOD_FOR_S):
            return self._outcome(key)
        try:
            answer = handle()
        except oslo_messaging.ExpectedException as expected:
            self._keep_refusal(key, expected.exc_info[1])
            raise
        except errors.FleetError as refusal:
            self._keep_refusal(key, refusal)
            raise
        deferred.after_reply(functools.partial(self._keep, key, {"answer": answer}))
        return answer

    def _keep_refusal(self, key: str, refusal: BaseException | None) -> None:
        if isinstance(refusal, errors.FleetError):
            kept = {"refusal": type(refusal).__name__, "facts": refusal.kwargs}
            deferred.after_reply(functools.partial(self._keep, key, kept))

    def _keep(self, key: str, outcome: Mapping[str, object]) -> None:
        try:
            text = json_codec.dumps(outcome, str)
            if len(text) <= MOST_CHARACTERS:
                self._record.keep(key, text)
        except errors.FleetError as failure:
            LOG.warning("An outcome is not kept, and a further copy of its message gets no answer: %s", failure.message)

    def _outcome(self, key: str) -> object:
        metrics.MESSAGES_REPEATED.inc()
        for pause_s in (0.0, *PAUSES_S):
            if pause_s:
                self._sleep(pause_s)
            text = self._record.outcome(key)
            if text is not None:
                return _read(json_codec.loads(text))
        raise signing.Repeated(reason="it is a further copy of a message whose outcome is not known")


def _read(outcome: Mapping[str, Any]) -> object:
    """Return the answer. :raises oslo_messaging.ExpectedException: it was a refusal"""
    if "refusal" not in outcome:
        return outcome["answer"]
    refusal = getattr(errors, outcome["refusal"])(**outcome["facts"])
    expected = oslo_messaging.ExpectedException()
    expected.exc_info = (type(refusal), refusal, None)
    raise expected
