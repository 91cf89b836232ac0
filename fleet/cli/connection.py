# SPDX-License-Identifier: Apache-2.0
"""The conductor and the scheduler as the command line reaches them, and their failures in plain words."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

from fleet import context, errors
from fleet.rpc import broker, clients, transport

#: Ports of brokers whose URL names none.
_DEFAULT_PORT = 5672
_CONNECT_TIMEOUT_S = 3


class CommandFailed(Exception):
    """What went wrong, in one line for the user."""


@dataclasses.dataclass
class _Opened:
    """A transport, and what is called over it."""

    bus: oslo_messaging.Transport
    operator: clients.OperatorAPI
    tasks: clients.ComputeTaskAPI
    scheduler: clients.SchedulerAPI
    #: Made when an agent is asked first: few commands do.
    hosts: clients.ComputeAPI | None = None


class Connection:
    """Opened at the first call: ``--help`` and wrong arguments need no broker."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._opened: _Opened | None = None

    def operator(self, method: str, **arguments: Any) -> Any:
        """Call ``method`` of the contract's ``operator`` namespace."""
        return self._open().operator.call(context.new_context(), method, **arguments)

    def create(self, request: dict[str, Any], client_token: str | None = None) -> dict[str, Any]:
        """Asked once more if no answer comes, under a token that sees to it that nothing is built twice.

        :param client_token: the user's own; without, one is made, if all conductors know of tokens
        """
        tasks, asked = self._open().tasks, context.new_context()
        token = client_token or uuidutils.generate_uuid()
        try:
            try:
                return tasks.create(asked, request, token)
            except oslo_messaging.MessagingTimeout:
                return tasks.create(asked, request, token)
        except errors.VersionPinned:
            if client_token:
                raise
            return tasks.create(asked, request)
        except oslo_messaging.MessagingTimeout:
            raise CommandFailed(
                f"the conductor did not answer within {self._conf.rpc_response_timeout} s, asked twice; the request may "
                f"have been accepted: it can be repeated with --client-token {token}"
            ) from None

    def terminate(self, uuids: list[str]) -> None:
        self._open().tasks.terminate_instances(context.new_context(), uuids)

    def explain(self, asked: dict[str, Any], best: int) -> dict[str, Any]:
        """What the scheduler would do. :param asked: an answer of the conductor's ``request_of`` or ``request_for``"""
        with self._scheduler_failures():
            return self._open().scheduler.explain(context.new_context(), **asked, best=best)

    def capacity(self, asked: dict[str, Any], group_by: str | None) -> dict[str, Any]:
        """How much more of it would fit. :param asked: as for :meth:`explain`"""
        with self._scheduler_failures():
            return self._open().scheduler.capacity(context.new_context(), **asked, group_by=group_by)

    def ping(self, topic: str) -> None:
        """Wait for an answer of anybody who serves ``topic``."""
        clients.BaseAPI(self._open().bus, self._conf, topic).ping(context.new_context(), topic)

    def describe_host(self, host: str) -> dict[str, Any]:
        """Ask an agent. :raises oslo_messaging.MessageUndeliverable: nobody serves ``host``"""
        opened = self._open()
        if opened.hosts is None:
            opened.hosts = clients.ComputeAPI(transport.get_host_transport(self._conf, opened.bus), self._conf)
        return opened.hosts.describe_host(context.new_context(), host)

    def depths(self, queues: Iterable[str]) -> dict[str, broker.Depth | None] | None:
        """How long these queues are; None where there is no broker. :raises broker.BrokerAway:"""
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
        """Turn the failures that a user can meet into :class:`CommandFailed`; others are bugs and stay as they are."""
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
        except oslo_messaging.MessageDeliveryFailure as nobody:
            raise CommandFailed(str(nobody)) from None

    @contextlib.contextmanager
    def impatient(self, timeout_s: int) -> Iterator[None]:
        """Wait no longer than ``timeout_s`` for an answer: for asking whether anybody is there yet."""
        self._open()
        self._conf.set_override("rpc_response_timeout", timeout_s)
        try:
            yield
        finally:
            self._conf.clear_override("rpc_response_timeout")

    def _open(self) -> _Opened:
        if self._opened is None:
            check_broker(oslo_messaging.TransportURL.parse(self._conf))
            bus = transport.get_transport(self._conf)
            made = (api(bus, self._conf) for api in (clients.OperatorAPI, clients.ComputeTaskAPI, clients.SchedulerAPI))
            self._opened = _Opened(bus, *made)
        return self._opened


def check_broker(url: oslo_messaging.TransportURL) -> None:
    """A daemon waits for its broker for ever; a person wants to know at once.

    :raises oslo_messaging.MessageDeliveryFailure: no host of ``url`` accepts a connection
    """
    tried = []
    for host in url.hosts if url.transport in ("rabbit", "rabbitmq", "amqp") else []:
        place = host.hostname or "localhost", host.port or _DEFAULT_PORT
        try:
            socket.create_connection(place, timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as unreachable:
            tried.append(f"{place[0]}:{place[1]} ({unreachable.strerror or unreachable})")
        else:
            return
    if tried:
        raise oslo_messaging.MessageDeliveryFailure(
            f"no message broker answers at {', '.join(tried)}; check transport_url in the configuration"
        )
