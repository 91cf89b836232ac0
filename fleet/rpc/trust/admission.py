# SPDX-License-Identifier: Apache-2.0
"""Refuses messages before an endpoint sees them: too large, nested too deeply, malformed, not trusted, of another
ledger, or of a caller that may not ask for this.

Anybody with the broker's password may send anything. A message is already acknowledged here, so a message that
crashes a worker is not delivered to the next one. A refused call is answered, and the log has one line a minute,
without the message's content.
"""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import oslo_messaging
from oslo_log import log as logging

from fleet import errors, json_codec
from fleet.context import new_context
from fleet.json_codec import JSONMapping, JSONObject
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import dispatching, serializer
from fleet.rpc.trust import message_size, repeated_changes, signing
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Characters of one message: more than the largest reports have, less than what harms a server.
MAX_MESSAGE_SIZE = 16 * 2**20
MAX_MESSAGE_DEPTH = 64
_SHOWN = 160
_NAME = 40
_NO_ARGUMENTS = frozenset({"self", "context"})
#: int() refuses more digits, or takes long.
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){1,2}")


class MethodsOnly(oslo_messaging.DefaultRPCAccessPolicy):
    """Serves an endpoint's public functions only, but for those marked as internal (:func:`fleet.rpc.endpoint.internal`).
    Its other attributes, such as ``target``, cannot be called.
    """

    def is_allowed(self, endpoint: object, method: str) -> bool:
        if not super().is_allowed(endpoint, method):
            return False
        found = getattr(endpoint, method)
        return inspect.isroutine(found) and not getattr(found, "is_internal", False)


class Guard(Protocol):
    """Decides by what a caller may see in the database, and what it sees of the answer."""

    def admit(self, context: Mapping[str, object], message: JSONObject) -> dict[str, object]:
        """Return the message that the method receives. :raises errors.NotTrusted: errors.NotFound: errors.Conflict:"""

    def release(self, context: Mapping[str, object], message: JSONMapping, answer: object) -> object:
        """Return the answer that the caller receives. :param message: as :meth:`admit` has returned it"""

    def refuse(self, context: Mapping[str, object], refusal: errors.FleetError) -> errors.FleetError:
        """Return the error that the caller receives, if the method raises ``refusal``."""


class Dispatcher(dispatching.Dispatcher):
    """Passes a message to its endpoint, or refuses it as the sender's mistake, without a traceback."""

    def __init__(
        self,
        endpoints: list[object],
        *options: Any,
        checker: signing.Checker | None = None,
        ledger: LedgerIdentity | None = None,
        guard: Guard | None = None,
        changes: repeated_changes.RepeatedChanges | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(endpoints, *options)
        self._checker = checker
        self._ledger = ledger or LedgerIdentity()
        self._guard = guard
        self._changes = changes
        self._log_rate = rate_limited_log.RateLimit(clock)

    def dispatch(self, incoming: object) -> object:
        refusal, answer = self._answer(incoming)
        if refusal is None:
            return answer
        # A new context: this thread's context still belongs to an earlier message.
        new_context()
        level = logging.ERROR if isinstance(refusal, errors.ForeignLedger) else logging.WARNING
        left_out = self._log_rate.due(type(refusal).__name__)
        if left_out is not None:
            reason = self._reason(refusal, incoming)
            LOG.log(level, "A message is refused: %s (%d more since the last such line)", reason, left_out)
        expected = oslo_messaging.ExpectedException()
        expected.exc_info = (type(refusal), refusal, None)
        raise expected

    def _reason(self, refusal: Exception, incoming: Any) -> str:
        if not isinstance(refusal, oslo_messaging.UnsupportedVersion):
            return getattr(refusal, "message", str(refusal))[:_SHOWN]
        targets = [each.target for each in self.endpoints if hasattr(each, "target")]
        namespace = incoming.message.get("namespace")
        served = ", ".join(str(each.version) for each in targets if each.namespace == namespace)
        # Both texts come from the sender.
        method, version = str(refusal.method)[:_NAME], str(refusal.version)[:_NAME]
        request = str(getattr(incoming, "ctxt", {}).get("request_id"))[:_NAME]
        asked = f"{method} is sent in RPC version {version}, and {served or 'none'} is served here"
        return f"{asked}; the sender of {request} is to set [upgrade_levels] to it, or to auto"

    def _answer(self, incoming: Any) -> tuple[Exception | None, object]:
        """Return the refusal, or None and the endpoint's answer. The refusal is logged later: oslo.log adds the
        exception that is being handled to each line.
        """
        try:
            _check(incoming.message, getattr(incoming, "size", None))
            _check_context(getattr(incoming, "ctxt", None))
            if self._checker is not None:
                self._checker.check(incoming.ctxt, incoming.message)
            self._require_own_ledger(incoming)
            key = self._key_of_change(incoming)
            if key is None or self._changes is None:
                return None, self._handled(incoming)
            return None, self._changes.answer(key, functools.partial(self._handled, incoming))
        except (
            oslo_messaging.NoSuchMethod,
            oslo_messaging.UnsupportedVersion,
            errors.InvalidInput,
            errors.NotTrusted,
            errors.NotFound,
            errors.Conflict,
            errors.ForeignLedger,
            errors.DatabaseError,
        ) as refusal:
            refusal.__traceback__ = refusal.__cause__ = refusal.__context__ = None
            if isinstance(refusal, signing.Repeated):
                # oslo.messaging then treats the message as a cast, and sends no reply.
                incoming.orig_msg_id = None
            return refusal, None

    def _key_of_change(self, incoming: Any) -> str | None:
        """Return the key under which the outcome of the message is recorded; None if it is not.

        A signed message is recorded by its signature, and a further copy gets no answer: whoever has read a message could
        replay it with a queue of its own.

        :raises oslo_messaging.NoSuchMethod: oslo_messaging.UnsupportedVersion: it changes nothing
        """
        if self._changes is None or (self._checker is not None and signing.FIELD in incoming.ctxt):
            return None
        key = repeated_changes.key_of(incoming)
        if key is not None:
            message = incoming.message
            self._method(message.get("namespace"), message.get("version", "1.0"), message.get("method"))
        return key

    def _handled(self, incoming: Any) -> object:
        if self._guard is not None and isinstance(incoming.ctxt, dict):
            incoming.message = self._guard.admit(incoming.ctxt, incoming.message)
        _drop_own_arguments(incoming)
        answer = self._dispatch(incoming)
        if self._guard is not None and isinstance(incoming.ctxt, dict):
            answer = self._guard.release(incoming.ctxt, incoming.message, answer)
        return answer

    def _dispatch(self, incoming: Any) -> object:
        try:
            return super().dispatch(incoming)
        except oslo_messaging.ExpectedException as expected:
            refusal = expected.exc_info[1]
            if self._guard is None or not isinstance(refusal, errors.FleetError) or not isinstance(incoming.ctxt, dict):
                raise
            told = self._guard.refuse(incoming.ctxt, refusal)
            expected.exc_info = (type(told), told, None)
            raise

    def _require_own_ledger(self, incoming: Any) -> None:
        """:raises errors.ForeignLedger:"""
        context = getattr(incoming, "ctxt", None)
        if incoming.message.get("namespace") == "baseapi" or not isinstance(context, dict):
            return
        try:
            exchanges = getattr(incoming, "exchange", ""), getattr(incoming, "own_exchange", "")
            self._ledger.check(context.get(serializer.LEDGER), *exchanges)
        except errors.ForeignLedger:
            metrics.FOREIGN_MESSAGES.inc()
            raise


def _check_context(context: object) -> None:
    """Check the value that decides whether the caller acts for a project: all that read it must read the same.

    :raises errors.InvalidInput:
    """
    if isinstance(context, dict) and not isinstance(context.get("is_admin", True), bool):
        raise errors.InvalidInput(field="context.is_admin", reason="must be true or false")


def _drop_own_arguments(incoming: Any) -> None:
    """Remove arguments that no method has: Python would take them for its own."""
    given = incoming.message.get("args", {})
    if not _NO_ARGUMENTS.isdisjoint(given):
        args = {name: value for name, value in given.items() if name not in _NO_ARGUMENTS}
        incoming.message = {**incoming.message, "args": args}


def _check(message: JSONObject, size: int | None = None) -> None:
    """:param size: the characters of the message, if its depth and its values were checked when it was decoded
    :raises errors.InvalidInput:
    """
    if message_size.REFUSED in message:
        raise errors.InvalidInput(field="message", reason=str(message[message_size.REFUSED])[:_SHOWN])
    was_decoded = size is not None
    try:
        # Escaped characters count less than in the text that was decoded.
        if size is None or size > MAX_MESSAGE_SIZE:
            size = len(message_size.text_of(message, MAX_MESSAGE_DEPTH))
    except message_size.TooDeep:
        raise errors.InvalidInput(field="message", reason=f"is nested more than {MAX_MESSAGE_DEPTH} deep") from None
    if size > MAX_MESSAGE_SIZE:
        raise errors.InvalidInput(field="message", reason=f"is larger than {MAX_MESSAGE_SIZE} characters")
    if not isinstance(message.get("method"), str):
        raise errors.InvalidInput(field="message.method", reason="must be text")
    if not isinstance(message.get("args", {}), dict):
        raise errors.InvalidInput(field="message.args", reason="must be a mapping")
    if not was_decoded:
        json_codec.require(message.get("args"))
    if not isinstance(message.get("namespace"), str | None):
        raise errors.InvalidInput(field="message.namespace", reason="must be text or null")
    version = message.get("version", "1.0")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise errors.InvalidInput(field="message.version", reason="must be a version such as 1.0")
