# SPDX-License-Identifier: Apache-2.0
"""Messages between processes: lost, repeated, delayed and overtaken as chance will have it; the real clients send them."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, TypeVar

import oslo_messaging
from oslo_config import cfg
from oslo_messaging.rpc import dispatcher
from oslo_serialization import jsonutils

from fleet import errors
from fleet.context import RequestContext
from fleet.rpc import pins, serializer
from fleet.rpc.clients import API, SchedulerAPI
from fleet.rpc.pins import Pins
from tests.configuration import configuration
from tests.simulation.world import Process, SimulatedWorld

CALL_TIMEOUT_S = 10.0
#: Later than any deadline of a build.
LATE_S = 240.0
#: Too many to be told of.
_QUIET = ("report_state", "report_hosts", "report_pools")
API = TypeVar("API", bound=API)


@dataclasses.dataclass
class Reply:
    """Filled by the answer, if one comes."""

    arrived: bool = False
    result: Any = None
    failure: Exception | None = None


@dataclasses.dataclass(frozen=True)
class Message:
    queue: str
    namespace: str | None
    method: str
    context: dict[str, Any]
    arguments: str
    reply: Reply | None = None

    def __str__(self) -> str:
        return f"{self.method} to {self.queue}"


def _about(given: dict[str, Any]) -> str:
    """The instance or volume and the attempt, as far as a message's arguments name them."""
    uuid = (
        given.get("instance_uuid")
        or given.get("volume_uuid")
        or (given.get("instance") or {}).get("uuid")
        or given.get("instance_uuids", "")
    )
    return f"{uuid} {given.get('attempt', '')}"


class Bus:
    """Queues outlive their consumers, as RabbitMQ's do; a queue that was never declared takes no mandatory message."""

    def __init__(self, world: SimulatedWorld, loss: float, repetition: float, delay: float) -> None:
        self._world = world
        self._loss, self._repetition, self._delay = loss, repetition, delay
        self._queues: dict[str, collections.deque[Message]] = {}
        self._consumers: dict[str, list[Process]] = collections.defaultdict(list)
        self._serializer = serializer.ContextSerializer()

    def client(self, cls: type[API]) -> API:
        """A client of the contract, sending here."""
        api = cls.__new__(cls)
        api._client = Sender(self, cls.topic, cls.namespace)  # type: ignore[assignment]
        api._conf = _Timeouts()  # type: ignore[assignment]
        api._pins = unpinned()
        if isinstance(api, SchedulerAPI):
            api.clock = self._world.clock
        return api

    def serve(self, process: Process, queues: Iterable[str]) -> None:
        for queue in queues:
            self._consumers[queue].append(process)
            for message in self._queues.setdefault(queue, collections.deque()):
                self._arrive_later(message)
            self._queues[queue].clear()

    def close(self, process: Process) -> None:
        """A process has died: the broker removes the queues that were its own, with what they hold."""
        for queue in process.of_queue:
            if "." in queue and not any(each.alive for each in self._consumers[queue]):
                self._queues.pop(queue, None)

    def idle(self) -> bool:
        return not any(self._queues.values())

    def send(self, message: Message, mandatory: bool) -> None:
        if mandatory and message.queue not in self._queues:
            raise oslo_messaging.MessageUndeliverable(exception=None, exchange="", routing_key="", message="")
        copies = 1
        if self._world.happens("message lost", self._loss):
            self._world.log("%s is lost", message)
            copies = 0
        elif self._world.happens("message repeated", self._repetition):
            copies = 2
        for _copy in range(copies):
            self._arrive_later(message)

    def _arrive_later(self, message: Message) -> None:
        delay = self._world.chance.choice([0.0, 0.01, 0.1, 0.5])
        if self._world.happens("message late", self._delay):
            delay = self._world.chance.choice([1.0, 20.0, LATE_S])
            self._world.log("%s takes %s s", message, delay)
        self._world.after(delay, lambda: self._arrive(message))

    def _arrive(self, message: Message) -> None:
        alive = [process for process in self._consumers[message.queue] if process.alive]
        if not alive:
            self._queues.setdefault(message.queue, collections.deque()).append(message)
            return
        process = self._world.chance.choice(alive)
        self._world.spawn(process, str(message), lambda: self._handle(process, message))

    def _handle(self, process: Process, message: Message) -> None:
        given = jsonutils.loads(message.arguments)
        if message.method not in _QUIET:
            self._world.log("%s: %s %s", process.name, message.method, _about(given))
        reply = Reply(arrived=True)
        try:
            reply.result = jsonutils.loads(jsonutils.dumps(self._dispatch(process, message, given)))
        except dispatcher.ExpectedException as refusal:
            reply.failure = _copied(refusal.exc_info[1])
        if message.reply is None:
            return
        if self._world.happens("answer lost", self._loss):
            self._world.log("the answer to %s is lost", message)
            return
        message.reply.result, message.reply.failure, message.reply.arrived = reply.result, reply.failure, True

    def _dispatch(self, process: Process, message: Message, given: dict[str, Any]) -> Any:
        for endpoint in process.of_queue.get(message.queue, process.endpoints):
            if endpoint.target.namespace == message.namespace and hasattr(endpoint, message.method):
                context = self._serializer.deserialize_context(dict(message.context))
                return getattr(endpoint, message.method)(context, **given)
        raise AssertionError(f"nobody serves {message}")

    def wait(self, reply: Reply, timeout_s: float) -> Any:
        if not self._world.wait(lambda: reply.arrived, timeout_s):
            raise oslo_messaging.MessagingTimeout()
        if reply.failure is not None:
            raise reply.failure
        return reply.result


class Sender:
    """What oslo.messaging's client is to the classes of ``fleet.rpc.clients``."""

    def __init__(self, bus: Bus, topic: str, namespace: str | None, server: str = "", mandatory: bool = False) -> None:
        self._bus = bus
        self._topic = topic
        self._namespace = namespace
        self._server = server
        self._mandatory = mandatory

    def prepare(self, server: str = "", transport_options: Any = None, topic: str = "", **_options: Any) -> Sender:
        return Sender(self._bus, topic or self._topic, self._namespace, server, transport_options is not None)

    def can_send_version(self, version: str) -> bool:
        return True

    def call(self, context: RequestContext, method: str, **arguments: Any) -> Any:
        reply = Reply()
        self._bus.send(self._message(context, method, arguments, reply), self._mandatory)
        return self._bus.wait(reply, CALL_TIMEOUT_S)

    def cast(self, context: RequestContext, method: str, **arguments: Any) -> None:
        self._bus.send(self._message(context, method, arguments, None), self._mandatory)

    def _message(self, context: RequestContext, method: str, arguments: Any, reply: Reply | None) -> Message:
        queue = f"{self._topic}.{self._server}" if self._server else self._topic
        return Message(queue, self._namespace, method, context.to_dict(), jsonutils.dumps(arguments), reply)


def unpinned() -> Pins:
    """All are of one release."""
    return Pins(_no_pins())


@functools.cache
def _no_pins() -> cfg.ConfigOpts:
    return configuration(pins.register_opts)


class _Timeouts:
    rpc_response_timeout = long_rpc_timeout = report_interval = CALL_TIMEOUT_S


def _copied(error: BaseException | None) -> Exception:
    """As it would arrive: rebuilt from its facts."""
    assert isinstance(error, errors.FleetError)
    return type(error)(**jsonutils.loads(jsonutils.dumps(error.kwargs)))
