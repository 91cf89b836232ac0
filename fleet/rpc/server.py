# SPDX-License-Identifier: Apache-2.0
"""Serves endpoints on a topic: expected errors travel without traceback, everything else is logged as the bug it is."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, TypeVar

import oslo_messaging
import pydantic
from oslo_messaging._drivers import base
from oslo_messaging.rpc import dispatcher
from oslo_messaging.rpc import server as rpc_server

from fleet import errors
from fleet.context import new_context
from fleet.ledger_identity import LedgerIdentity
from fleet.objects import fields
from fleet.rpc import deferred, serializer
from fleet.rpc.rabbit import blocking_consume, host_queues, leader_followers, replies
from fleet.rpc.trust import admission, message_size, replay_protection, signing

#: A request as JSON may be this long: far more than any real one, far less than what hurts.
MAX_REQUEST_BYTES = 256 * 1024
MAX_REQUEST_DEPTH = 32

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class BaseAPI:
    """Namespace ``baseapi``: is anybody there?"""

    target = oslo_messaging.Target(namespace="baseapi", version="1.1")

    def __init__(self, service: str) -> None:
        self._service = service

    # Defined before ``endpoint``: unknown keys are ignored here as there.
    def ping(self, context: object, /, arg: object = None, **_unknown: object) -> dict[str, object]:
        return {"service": self._service, "arg": arg}


def expected_errors(method: Endpoint) -> Endpoint:
    """Let a method's ``FleetError`` reach the caller as an answer: no traceback in this log, none on the wire."""

    @functools.wraps(method)
    def answered(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except errors.FleetError as refusal:
            expected = dispatcher.ExpectedException()
            refusal.__cause__ = refusal.__context__ = None
            expected.exc_info = (type(refusal), refusal, None)
            raise expected from None

    return answered  # type: ignore[return-value]


def endpoint(method: Endpoint) -> Endpoint:
    """Mark a method as remotely callable: arguments are checked against its annotations, unknown ones are ignored.

    A wrong argument is answered with ``InvalidInput`` naming it; see :func:`expected_errors` for the rest.
    """
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(method, eval_str=True).parameters.items()
        if name not in ("self", "context")
    }
    checked: Callable[..., Any] = method
    if any(parameter.annotation is not Any for parameter in parameters.values()):
        checked = pydantic.validate_call(method, config=pydantic.ConfigDict(arbitrary_types_allowed=True))
    needed = [name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]

    @functools.wraps(method)
    def called(self: object, context: object, /, **arguments: Any) -> Any:
        for name in needed:
            if name not in arguments:
                raise errors.InvalidInput(field=name, reason="missing required argument")
        try:
            return checked(self, context, **{name: value for name, value in arguments.items() if name in parameters})
        except pydantic.ValidationError as invalid:
            raise fields.invalid_input(invalid) from None

    return expected_errors(called)  # type: ignore[return-value]


def require_size(request: object, field: str) -> None:
    """:raises errors.InvalidInput: the request is too large, or nested too deeply, to be looked into"""
    try:
        text = message_size.text_of(request, MAX_REQUEST_DEPTH, finite=True)
    except message_size.TooDeep:
        raise errors.InvalidInput(field=field, reason="is nested too deeply") from None
    except ValueError:
        raise errors.InvalidInput(field=field, reason="has a number that is not finite") from None
    if len(text) > MAX_REQUEST_BYTES:
        raise errors.InvalidInput(field=field, reason=f"is {len(text)} bytes, at most {MAX_REQUEST_BYTES} are taken")
    if "\\u0000" in text:
        raise errors.InvalidInput(field=field, reason="has a NUL character")


class Server:
    """Takes a message only when a thread is free for it (:mod:`fleet.rpc.rabbit.leader_followers`).

    oslo.messaging acknowledges a message when it takes it, and by itself takes all there are: a worker that dies would
    lose, and one that stops would have to work off, whatever was sent to it.
    """

    def __init__(self, served: _Served, draining: threading.Event, threads: int | None = None) -> None:
        self._served = served
        self._draining = draining
        self._threads = threads

    def start(self, override_pool_size: int | None = None) -> None:
        self._served.threads = override_pool_size or self._threads or self._served.conf.executor_thread_pool_size
        self._served.start(override_pool_size)

    def stop(self) -> None:
        self._served.stop()
        self._draining.set()

    def wait(self) -> None:
        self._served.wait()
        self._served.handle_strays()


class _Served(rpc_server.RPCServer):
    #: How many messages are handled at once.
    threads = 1

    def _create_listener(self) -> base.Listener:
        return leader_followers.Listener(blocking_consume.at_length(super()._create_listener()), self.threads)

    def _on_incoming(self, incoming: object) -> None:
        self._process_incoming(incoming)
        # What this thread says next, of the broker, is not about that message.
        new_context()

    def _process_incoming(self, incoming: Any) -> None:
        with deferred.answering():
            super()._process_incoming([replies.at_once(each) for each in incoming])

    def handle_strays(self) -> None:
        """Messages that were on their way when the intake ended: oslo.messaging acknowledges them as it closes the
        connection (18.3: waiting for the fanout queue's deletion, it reads what comes before), and then forgets them.
        """
        listener = getattr(self.listener, "polled", None)
        for stray in list(getattr(listener, "incoming", ())):
            self._process_incoming([stray])


class _Host(_Served):
    """Takes all that is sent to its host, and handles it in order: its queue ends with this process in any case, and
    others wait for their turn on the connection."""

    def __init__(self, queues: host_queues.HostQueues, *options: Any) -> None:
        super().__init__(*options)
        # Its threads wait for work; those that oslo.messaging chooses look every second whether they are still wanted.
        self._executor_cls = futures.ThreadPoolExecutor
        self._queues = queues

    def _create_listener(self) -> host_queues.Listener:
        return host_queues.Listener(self._queues, self._target.server)

    def _on_incoming(self, incoming: object) -> None:
        self._work_executor.submit(self._process_incoming, incoming)


def get_server(
    transport: oslo_messaging.RPCTransport,
    topic: str,
    server: str,
    endpoints: Sequence[object],
    exchange: str | None = None,
    draining: threading.Event | None = None,
    queues: host_queues.HostQueues | None = None,
    ledger: LedgerIdentity | None = None,
    threads: int | None = None,
    signatures: replay_protection.Record | None = None,
) -> Server:
    """A server for ``topic``, also reachable as ``topic.server`` and by fanout; ``baseapi`` is added.

    :param exchange: other than ``control_exchange``
    :param draining: set as soon as a stop has ended the intake, while the last messages are still handled
    :param ledger: messages of another ledger are refused
    :param signatures: of signed messages, shared with the other servers of the topic
    :param threads: how many messages are handled at once; None: ``executor_thread_pool_size``
    :param queues: what ``server`` shares with other hosts; then it is reachable as ``topic.server`` only
    """
    keys = signing.keys_of(transport.conf)
    dispatching = admission.Dispatcher(
        [*endpoints, BaseAPI(topic)],
        serializer.ContextSerializer(),
        admission.MethodsOnly,
        checker=signing.Checker(transport.conf, keys, topic, server, record=signatures) if keys else None,
        ledger=ledger,
    )
    target = oslo_messaging.Target(exchange=exchange, topic=topic, server=server)
    options = (transport, target, dispatching, "threading")
    served = _Host(queues, *options) if queues is not None else _Served(*options)
    return Server(served, draining or threading.Event(), threads)


def get_keeper(transport: oslo_messaging.RPCTransport, exchange: str, name: str) -> Server:
    """Holds ``exchange`` while no host is there: it goes with its last queue, and to send on it then is a broken channel.

    Whoever sends to hosts keeps one, with a ``name`` of its own.
    """
    return get_server(transport, "keeper", name, [], exchange)
