# SPDX-License-Identifier: Apache-2.0
"""The base of all clients: sends a message in a version that the receiver understands, and counts calls without an
answer.

The clients beside it inherit from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import oslo_messaging
from oslo_config import cfg
from oslo_serialization import jsonutils

from fleet import errors, json_codec
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import ledger_queue, serializer, versions
from fleet.rpc.pins import Pins
from fleet.rpc.rabbit import broker_refusals
from fleet.rpc.trust import message_size, signing
from fleet.telemetry import metrics

#: Fail at once if no queue receives the message: the host's agent is gone.
MANDATORY = oslo_messaging.TransportOptions(at_least_once=True)
#: Retries of a call that a server of another ledger, or with a wrong clock, has refused.
ASKED_AGAIN = 3
#: oslo.messaging's error for a message in an unknown version. The server has not processed it.
_UNSUPPORTED = "UnsupportedVersion"


class API:
    """Sends each message in the lowest version that has everything it needs, at most that of ``pins``.

    ``ledger`` is sent with every message; a receiver that uses another ledger refuses the message.
    """

    topic = ""
    namespace: str | None = None
    _signer: signing.Signer | None = None
    #: Methods that use the conductors' second queue.
    _ledger_queue: ledger_queue.Choice | None = None
    #: By cap and version; the same for all clients.
    _sendable: ClassVar[dict[tuple[str, str], bool]] = {}

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        conf: cfg.ConfigOpts,
        pins: Pins | None = None,
        ledger: LedgerIdentity | None = None,
        for_agents: bool = False,
    ) -> None:
        """:param for_agents: whether messages go by :mod:`fleet.rpc.ledger_queue`"""
        self._conf = conf
        self._ledger_queue = ledger_queue.Choice() if for_agents else None
        self._pins = pins or Pins(conf)
        keys = signing.keys_of(conf)
        self._signer = signing.Signer(keys) if keys else None
        target = oslo_messaging.Target(exchange=self._exchange(conf), topic=self.topic, namespace=self.namespace)
        self._client = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.ContextSerializer(ledger))

    @staticmethod
    def _exchange(conf: cfg.ConfigOpts) -> str | None:
        """Return the exchange; None stands for ``control_exchange``."""
        return None

    def _call(self, context: RequestContext, method: str, **kwargs: object) -> Any:
        return self._ask(context, Message(method, kwargs))

    def _cast(self, context: RequestContext, method: str, **kwargs: object) -> None:
        self._send(context, Message(method, kwargs))

    def _ask(self, context: RequestContext, message: Message, **options: object) -> Any:
        """Call and return the answer. A call refused for its version is repeated in an older one; a timeout is counted.

        :param options: of the client's ``prepare``
        :raises errors.VersionPinned: no version that may be sent can express the message
        :raises errors.InvalidInput: a value is a whole number that the receiver would read as another
        """
        self._require_numbers(message)
        refusals = 0
        while True:
            version, arguments = self._in_version(message)
            queue = self._queue_options()
            sent = {**options, **queue}
            try:
                return self._prepared(version, sent).call(
                    self._signed(context, message.method, version, arguments, sent), message.method, **arguments
                )
            except oslo_messaging.MessagingTimeout:
                metrics.RPC_TIMEOUTS.labels(message.method).inc()
                if queue and self._ledger_queue is not None:
                    self._ledger_queue.silent()
                raise
            except (errors.ForeignLedger, errors.ClockSkewed):
                # The next message goes to another server of the topic.
                refusals += 1
                if refusals > ASKED_AGAIN or "server" in options:
                    raise
                continue
            except oslo_messaging.MessageUndeliverable:
                if not queue or self._ledger_queue is None:
                    raise
                self._ledger_queue.missing()
                continue
            except oslo_messaging.RemoteError as failed:
                if failed.exc_type != _UNSUPPORTED:
                    raise
                refusal = failed
            except broker_refusals.REFUSALS as refused:
                raise oslo_messaging.MessageDeliveryFailure(
                    f"The broker refuses: {broker_refusals.reason(refused)}"
                ) from None
            # Outside of the except clause: oslo.log would add the traceback.
            if not self._pins.refused(self.topic, message.method, version):
                raise refusal

    def _ask_anew(self, context: RequestContext, made: Callable[[], Message]) -> Any:
        """Call like :meth:`_ask`. A message that turns out to be too new is made once more, with less.

        :param made: makes the message, by the versions that can be sent
        """
        while True:
            message = made()
            try:
                return self._ask(context, message)
            except errors.VersionPinned:
                if made().version == message.version:
                    raise

    def _send(self, context: RequestContext, message: Message, **options: object) -> None:
        """Cast a message. :raises errors.VersionPinned: errors.InvalidInput:"""
        self._require_numbers(message)
        version, arguments = self._in_version(message)
        signed = self._signed(context, message.method, version, arguments, options)
        try:
            self._prepared(version, options).cast(signed, message.method, **arguments)
        except broker_refusals.REFUSALS as refused:
            raise oslo_messaging.MessageDeliveryFailure(
                f"The broker refuses: {broker_refusals.reason(refused)}"
            ) from None

    def _require_numbers(self, message: Message) -> None:
        if self.namespace in message_size.FREE_FORM:
            json_codec.require_whole_numbers({**message.arguments, **message.newer}, jsonutils.to_primitive)

    def _signed(
        self, context: RequestContext, method: str, version: str, arguments: JSONObject, options: JSONObject
    ) -> Any:
        if self._signer is None:
            return context
        server = options.get("server")
        topic = options.get("topic", self.topic)
        to = f"{topic}.{server}" if server else topic
        letter = signing.Letter(to, self.namespace, version, method, arguments)
        return self._signer.seal(context, letter, host=server)

    def _queue_options(self) -> JSONObject:
        """Return the client's options for the conductors' second queue; none for the common queue."""
        if self._ledger_queue is None or not self._can_send(ledger_queue.SINCE) or not self._ledger_queue.wants_it():
            return {}
        return {"topic": ledger_queue.TOPIC, "transport_options": MANDATORY}

    def _prepared(self, version: str, options: JSONObject) -> Any:
        return self._client.prepare(version=version, version_cap=self._pins.cap(self.topic), **options)

    def _in_version(self, message: Message) -> tuple[str, JSONObject]:
        """Return the version to send ``message`` in, and the arguments that this version knows."""
        needed = message.version or versions.OLDEST[self.topic]
        if not self._can_send(needed):
            cap, pin = self._pins.cap(self.topic), self._pins.pin(self.topic)
            raise errors.VersionPinned(topic=self.topic, method=message.method, needs=needed, cap=cap, pin=pin)
        if message.newer and self._can_send(message.newer_version):
            return message.newer_version, {**message.arguments, **message.newer}
        return needed, dict(message.arguments)

    def _can_send(self, version: str) -> bool:
        cap = self._pins.cap(self.topic)
        if (cap, version) not in self._sendable:
            self._sendable[cap, version] = self._client.prepare(version_cap=cap).can_send_version(version)
        return self._sendable[cap, version]


@dataclasses.dataclass(frozen=True)
class Message:
    """A method and its arguments. ``version`` is the version that introduced the method, if it is not the first.

    ``newer`` are arguments that ``newer_version`` introduced; they are left out where that version cannot be sent.
    """

    method: str
    arguments: Mapping[str, object]
    version: str = ""
    newer: Mapping[str, object] = dataclasses.field(default_factory=dict)
    newer_version: str = ""
