# SPDX-License-Identifier: Apache-2.0
"""Calls to the conductor and the scheduler for the command line, with failures in plain words."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

from fleet import context, errors
from fleet.checks import required
from fleet.rpc import clients, nova_broker, transport
from fleet.rpc.rabbit import broker

#: Seconds to wait for a daemon that is just being started.
TAKER_TIMEOUT_S = 4.0
_TAKER_PAUSE_S = 0.25
#: One object as the conductor returns it: an instance, a host, a flavor.
Record = Mapping[str, Any]


class CommandFailed(Exception):
    """A failure as one line for the user."""


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


class Connection:
    """Opened at the first call, so ``--help`` and wrong arguments need no broker.

    Before the first call on a topic the broker is asked whether a daemon serves it. Otherwise the call would wait
    until ``rpc_response_timeout``.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._opened: _Opened | None = None
        self._served: set[str] = set()
        #: The project and the user of the calls.
        self.project_id: str | None = None
        self.user_id: str | None = None

    def operator(self, method: str, **arguments: Any) -> Any:
        """Call ``method`` of the contract's ``operator`` namespace."""
        if not self.serves(method):
            raise CommandFailed("this command is for a fleet, and [nova] transport_url is set: use nova's own commands")
        topic = "scheduler" if nova_broker.is_active(self._conf) else "conductor"
        return self._served_by(topic).operator.call(self._context(), method, **arguments)

    def serves(self, method: str) -> bool:
        """Return True if the ``operator`` namespace has the method: where nova is served it has few."""
        return not nova_broker.is_active(self._conf) or method in clients.NovaOperatorAPI.METHODS

    def act_for(self, project_id: str | None, user_id: str | None) -> None:
        """Make later calls for this project and this user."""
        self.project_id, self.user_id = project_id, user_id

    def _context(self) -> context.RequestContext:
        return context.new_context(self.project_id, self.user_id)

    def create(self, request: dict[str, Any], client_token: str | None = None) -> dict[str, Any]:
        """Request a build. After a timeout it is repeated once, with a token that prevents a second build.

        :param client_token: the user's own; by default a new one, if all conductors know tokens
        """
        tasks, asked = self._served_by("conductor").tasks, self._context()
        return self._once(lambda token: tasks.create(asked, request, token), client_token)

    def create_volumes(self, request: dict[str, Any], client_token: str | None = None) -> dict[str, Any]:
        """Request volumes; as :meth:`create`."""

        def send(token: str | None) -> dict[str, Any]:
            named = {"client_token": token} if token else {}
            return self.operator("create_volumes", request=request, **named)

        return self._once(send, client_token)

    def _once(self, send: Callable[[str | None], dict[str, Any]], client_token: str | None) -> dict[str, Any]:
        """Send a request, and after a timeout once more with the same token, so that it is carried out once."""
        token = client_token or uuidutils.generate_uuid()
        try:
            try:
                return send(token)
            except oslo_messaging.MessagingTimeout:
                return send(token)
        except errors.VersionPinned:
            if client_token:
                raise
            return send(None)
        except oslo_messaging.MessagingTimeout:
            raise CommandFailed(
                f"the conductor did not answer within {self._conf.rpc_response_timeout} s, asked twice; the request may "
                f"have been accepted: it can be repeated with --client-token {token}"
            ) from None

    def terminate(self, uuids: list[str]) -> None:
        self._served_by("conductor").tasks.terminate_instances(context.new_context(), uuids)

    def explain(self, asked: dict[str, Any], best: int) -> dict[str, Any]:
        """Ask the scheduler what it would do.

        :param asked: an answer of the conductor's ``request_of`` or ``request_for``
        """
        with self._scheduler_failures():
            return self._served_by("scheduler").scheduler.explain(self._context(), **asked, best=best)

    def explain_volume(self, asked: dict[str, Any], best: int) -> dict[str, Any]:
        """Ask the scheduler for volumes what it would do.

        :param asked: ``request_spec`` and ``filter_properties``
        """
        with self._scheduler_failures():
            return self._served_by("volume_scheduler").volume_scheduler.explain(self._context(), **asked, best=best)

    def volume_capacity(self, asked: dict[str, Any], group_by: str | None) -> dict[str, Any]:
        """Ask the scheduler for volumes how many more fit. :param asked: as for :meth:`explain_volume`"""
        with self._scheduler_failures():
            served = self._served_by("volume_scheduler").volume_scheduler
            return served.capacity(self._context(), **asked, group_by=group_by)

    def capacity(self, asked: dict[str, Any], group_by: str | None) -> dict[str, Any]:
        """Ask the scheduler how much more would fit.

        :param asked: as for :meth:`explain`
        """
        with self._scheduler_failures():
            return self._served_by("scheduler").scheduler.capacity(self._context(), **asked, group_by=group_by)

    def ping(self, topic: str) -> None:
        """Wait for an answer from ``topic``. :raises oslo_messaging.MessageUndeliverable: it has no queue"""
        clients.BaseAPI(self._open().bus, self._conf, topic).ping(context.new_context(), topic)

    def describe_host(self, host: str) -> dict[str, Any]:
        """Ask an agent. :raises oslo_messaging.MessageUndeliverable: no agent serves ``host``"""
        opened = self._open()
        if opened.hosts is None:
            opened.hosts = clients.ComputeAPI(transport.get_host_transport(self._conf, opened.bus), self._conf)
        return opened.hosts.describe_host(context.new_context(), host)

    def depths(self, queues: Iterable[str]) -> dict[str, broker.Depth | None] | None:
        """Return the length of these queues; None without a broker. :raises broker.BrokerAway:"""
        if not broker.is_there(self._conf):
            return None
        with broker.connected(self._conf) as connection:
            return broker.depths(connection, queues)

    @contextlib.contextmanager
    def _scheduler_failures(self) -> Iterator[None]:
        try:
            yield
        except oslo_messaging.MessagingTimeout:
            timeout_s = self._conf.rpc_response_timeout
            raise CommandFailed(f"no scheduler answered within {timeout_s} s; is one running?") from None
        except oslo_messaging.RemoteError as broken:
            raise CommandFailed(
                f"the scheduler failed to answer ({broken.exc_type}: {broken.value}); its log has the details"
            ) from None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.bus.cleanup()

    @contextlib.contextmanager
    def plain_failures(self) -> Iterator[None]:
        """Turn failures that a user can meet into :class:`CommandFailed`. Others are bugs and stay as they are."""
        try:
            yield
        except errors.FleetError as refusal:
            raise CommandFailed(refusal.message) from None
        except oslo_messaging.RemoteError as broken:
            raise CommandFailed(
                f"the conductor failed to answer ({broken.exc_type}: {broken.value}); its log has the details"
            ) from None
        except oslo_messaging.MessagingTimeout:
            timeout_s = self._conf.rpc_response_timeout
            raise CommandFailed(f"the conductor did not answer within {timeout_s} s; is it running?") from None
        except oslo_messaging.MessageUndeliverable as unroutable:
            raise CommandFailed(nobody_takes(str(unroutable.routing_key))) from None
        except oslo_messaging.MessageDeliveryFailure as nobody:
            raise CommandFailed(str(nobody)) from None

    @contextlib.contextmanager
    def impatient(self, timeout_s: int) -> Iterator[None]:
        """Wait at most ``timeout_s`` for each answer."""
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


def nobody_takes(topic: str) -> str:
    return f"no daemon serves topic {topic}; start fleet-{topic.removeprefix('volume_')}, or see 'fleet doctor'"


def require_taker(
    conf: cfg.ConfigOpts,
    topic: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return as soon as a daemon serves ``topic``.

    :raises CommandFailed: no daemon does within TAKER_TIMEOUT_S, or the broker refuses
    """
    deadline = clock() + TAKER_TIMEOUT_S
    try:
        with broker.connected(conf) as connection:
            while not _is_taken(broker.depths(connection, [topic])[topic]):
                if clock() >= deadline:
                    raise CommandFailed(nobody_takes(topic))
                sleep(_TAKER_PAUSE_S)
    except broker.BrokerAway as away:
        raise CommandFailed(
            f"no message broker accepts a connection: {away}; check transport_url in the configuration"
        ) from None


def _is_taken(depth: broker.Depth | None) -> bool:
    return depth is not None and depth.consumers > 0
