# SPDX-License-Identifier: Apache-2.0
"""Calls over the message broker. Commands use it unless the URL of a ``fleet-api`` is given."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import getpass
import time
from collections.abc import Iterable, Iterator

import oslo_messaging
from oslo_config import cfg

from fleet import context
from fleet.checks import required
from fleet.client.calls import Calls, CommandFailed, Record, nobody_takes
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects.answers.instances import AcceptedRequest
from fleet.rpc import clients, nova_broker, transport
from fleet.rpc.rabbit import broker

#: Seconds to wait for a daemon that is just being started.
TAKER_TIMEOUT_S = 4.0
_TAKER_PAUSE_S = 0.25


@functools.cache
def _login() -> str | None:
    """The user of this machine; None if the machine does not know it, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


__all__ = ["CommandFailed", "Connection", "Record", "require_taker"]


@dataclasses.dataclass
class _Opened:
    """A transport and its clients."""

    bus: oslo_messaging.Transport
    operator: clients.OperatorAPI
    tasks: clients.ComputeTaskAPI
    scheduler: clients.SchedulerAPI
    volume_scheduler: clients.VolumeSchedulerAPI
    #: Created when an agent is asked first: few commands do that.
    hosts: clients.ComputeAPI | None = None


class Connection(Calls):
    """Over the message broker. Opened at the first call, so ``--help`` and wrong arguments need no broker.

    Before the first call on a topic the broker is asked whether a daemon serves it. Otherwise the call would wait
    until ``rpc_response_timeout``.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__()
        self._conf = conf
        self._opened: _Opened | None = None
        self._served: set[str] = set()

    @property
    def timeout_s(self) -> int:
        found: int = self._conf.rpc_response_timeout
        return found

    def ask(self, method: str, **arguments: object) -> object:
        if not self.serves(method):
            raise CommandFailed("this command is for a fleet, and [nova] transport_url is set: use nova's own commands")
        topic = "scheduler" if nova_broker.is_active(self._conf) else "conductor"
        return self._served_by(topic).operator.call(self._context(), method, **arguments)

    def serves(self, method: str) -> bool:
        """Return True if the receiver has the method. A scheduler that serves nova has only a few of them."""
        return not nova_broker.is_active(self._conf) or method in clients.NovaOperatorAPI.METHODS

    def _context(self) -> context.RequestContext:
        made = context.new_context(self.project_id, self.user_id)
        # For the log and the list of administrative acts; it gives no rights.
        made.user_name = _login()
        return made

    def _create(self, request: JSONObject, token: str | None) -> AcceptedRequest:
        return self._served_by("conductor").tasks.create(self._context(), request, token)

    def terminate(self, uuids: list[str]) -> None:
        self._served_by("conductor").tasks.terminate_instances(self._context(), uuids)

    def explain(self, asked: JSONMapping, best: int) -> JSONObject:
        with self._scheduler_failures():
            return self._served_by("scheduler").scheduler.explain(self._context(), **asked, best=best)

    def describe_filters(self) -> JSONObject:
        return self._served_by("scheduler").scheduler.describe_filters(self._context())

    def explain_volume(self, asked: JSONMapping, best: int) -> JSONObject:
        with self._scheduler_failures():
            return self._served_by("volume_scheduler").volume_scheduler.explain(self._context(), **asked, best=best)

    def volume_capacity(self, asked: JSONMapping, group_by: str | None) -> JSONObject:
        with self._scheduler_failures():
            served = self._served_by("volume_scheduler").volume_scheduler
            return served.capacity(self._context(), **asked, group_by=group_by)

    def capacity(self, asked: JSONMapping, group_by: str | None) -> JSONObject:
        with self._scheduler_failures():
            return self._served_by("scheduler").scheduler.capacity(self._context(), **asked, group_by=group_by)

    def ping(self, topic: str) -> None:
        clients.BaseAPI(self._open().bus, self._conf, topic).ping(context.new_context(), topic)

    def describe_host(self, host: str) -> JSONObject:
        opened = self._open()
        if opened.hosts is None:
            opened.hosts = clients.ComputeAPI(transport.get_host_transport(self._conf, opened.bus), self._conf)
        return opened.hosts.describe_host(context.new_context(), host)

    def depths(self, queues: Iterable[str]) -> dict[str, broker.Depth | None] | None:
        if not broker.is_there(self._conf):
            return None
        with broker.connected(self._conf) as connection:
            return broker.depths(connection, queues)

    def nodes(self) -> list[broker.Node]:
        return broker.nodes(self._conf) if broker.is_there(self._conf) else []

    def close(self) -> None:
        if self._opened is not None:
            self._opened.bus.cleanup()

    @contextlib.contextmanager
    def impatient(self, timeout_s: int) -> Iterator[None]:
        self._open()
        self._conf.set_override("rpc_response_timeout", timeout_s)
        try:
            yield
        finally:
            self._conf.clear_override("rpc_response_timeout")

    def _open(self) -> _Opened:
        if self._opened is None:
            required.broker(self._conf)
            bus = transport.get_transport(self._conf)
            operator = clients.NovaOperatorAPI if nova_broker.is_active(self._conf) else clients.OperatorAPI
            self._opened = _Opened(
                bus,
                operator(bus, self._conf),
                clients.ComputeTaskAPI(bus, self._conf),
                clients.SchedulerAPI(bus, self._conf),
                clients.VolumeSchedulerAPI(bus, self._conf),
            )
        return self._opened

    def _served_by(self, topic: str) -> _Opened:
        """:raises CommandFailed: the broker refuses, or no daemon serves ``topic``"""
        opened = self._open()
        if topic not in self._served:
            if broker.is_there(self._conf):
                require_taker(self._conf, topic)
            else:
                self.ping(topic)
            self._served.add(topic)
        return opened


def require_taker(conf: cfg.ConfigOpts, topic: str) -> None:
    """Return as soon as a daemon serves ``topic``.

    :raises CommandFailed: no daemon does within TAKER_TIMEOUT_S, or the broker refuses
    """
    deadline = time.monotonic() + TAKER_TIMEOUT_S
    try:
        with broker.connected(conf) as connection:
            while not _is_taken(broker.depths(connection, [topic])[topic]):
                if time.monotonic() >= deadline:
                    raise CommandFailed(nobody_takes(topic))
                time.sleep(_TAKER_PAUSE_S)
    except broker.BrokerAway as away:
        raise CommandFailed(
            f"no message broker accepts a connection: {away}; check transport_url in the configuration"
        ) from None


def _is_taken(depth: broker.Depth | None) -> bool:
    return depth is not None and depth.consumers > 0
