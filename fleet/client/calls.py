# SPDX-License-Identifier: Apache-2.0
"""Calls to a fleet, over AMQP or HTTP, with failures in plain words.

The commands inherit it by :mod:`fleet.client.connection` and :mod:`fleet.client.http_connection`.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import oslo_messaging
from oslo_utils import uuidutils

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects.answers.instances import AcceptedRequest
from fleet.objects.answers.volumes import MadeVolumes
from fleet.rpc.clients import OperatorCalls
from fleet.rpc.clients.operator.volumes import Token
from fleet.rpc.rabbit import broker

#: One object as the conductor returns it: an instance, a host, a flavor.
Record = JSONMapping

Answer = TypeVar("Answer")


class CommandFailed(Exception):
    """A failure as one line for the user."""


class Unreachable(CommandFailed):
    """Nobody accepts a connection, so no request was sent."""


class AnswerLost(oslo_messaging.MessagingTimeout):  # type: ignore[misc]
    """A request may have arrived, and its answer did not. The message is for the user."""


class Calls(abc.ABC):
    """Calls of the conductor and the schedulers.

    A refusal is a class of ``fleet.errors``. Other failures are those of oslo.messaging: ``MessagingTimeout`` (what was
    asked for may have been done), ``RemoteError`` (a bug there), ``MessageDeliveryFailure`` (no daemon receives it).
    """

    #: Whether the caller's machine needs the broker's address and account.
    uses_broker = True

    def __init__(self) -> None:
        #: The project and the user of the calls.
        self.project_id: str | None = None
        self.user_id: str | None = None

    @property
    @abc.abstractmethod
    def timeout_s(self) -> int:
        """Seconds that a call waits for its answer."""

    @property
    def operator(self) -> OperatorCalls:
        """The calls of the contract's ``operator`` namespace."""
        return OperatorCalls(self.ask)

    @abc.abstractmethod
    def ask(self, method: str, **arguments: object) -> object:
        """Call ``method`` of the contract's ``operator`` namespace. :attr:`operator` has a method for each, with types."""

    def serves(self, method: str) -> bool:
        """Return True if the ``operator`` namespace has the method."""
        return True

    def act_for(self, project_id: str | None, user_id: str | None) -> None:
        """Make later calls for this project and this user."""
        self.project_id, self.user_id = project_id, user_id

    def create(self, request: JSONObject, client_token: str | None = None) -> AcceptedRequest:
        """Request a build. After a timeout it is repeated once, with a token that prevents a second build.

        :param client_token: the user's own; by default a new one, if all conductors know tokens
        """
        return self._once(lambda token: self._create(request, token), client_token)

    @abc.abstractmethod
    def _create(self, request: JSONObject, token: str | None) -> AcceptedRequest:
        """Request a build once."""

    def create_volumes(self, request: JSONObject, client_token: str | None = None) -> MadeVolumes:
        """Request volumes; as :meth:`create`."""
        return self._once(lambda token: self.operator.create_volumes(request, **_named(token)), client_token)

    def manage_volume(self, request: JSONObject, client_token: str | None = None) -> MadeVolumes:
        """Request that what lies on a pool becomes a volume; as :meth:`create`."""
        return self._once(lambda token: self.operator.manage_volume(request, **_named(token)), client_token)

    def _once(self, send: Callable[[str | None], Answer], client_token: str | None) -> Answer:
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
        except oslo_messaging.MessagingTimeout as late:
            raise CommandFailed(
                f"{self._silence(late)}, asked twice; the request may have been accepted: it can be repeated with "
                f"--client-token {token}"
            ) from None

    def _silence(self, late: oslo_messaging.MessagingTimeout, who: str = "the conductor did not answer") -> str:
        return str(late) if isinstance(late, AnswerLost) else f"{who} within {self.timeout_s} s"

    @abc.abstractmethod
    def terminate(self, uuids: list[str]) -> None:
        """Delete instances."""

    @abc.abstractmethod
    def explain(self, asked: Mapping[str, object], best: int) -> JSONObject:
        """Return the decision that the scheduler would make.

        :param asked: an answer of the conductor's ``request_of`` or ``request_for``
        """

    @abc.abstractmethod
    def capacity(self, asked: Mapping[str, object], group_by: str | None) -> JSONObject:
        """Ask the scheduler how much more would fit. :param asked: as for :meth:`explain`"""

    @abc.abstractmethod
    def describe_filters(self) -> JSONObject:
        """Ask the scheduler which parts of a request its filters judge."""

    @abc.abstractmethod
    def explain_volume(self, asked: Mapping[str, object], best: int) -> JSONObject:
        """Return the decision that the scheduler for volumes would make.

        :param asked: ``request_spec`` and ``filter_properties``
        """

    @abc.abstractmethod
    def volume_capacity(self, asked: Mapping[str, object], group_by: str | None) -> JSONObject:
        """Ask the scheduler for volumes how many more fit. :param asked: as for :meth:`explain_volume`"""

    @abc.abstractmethod
    def ping(self, topic: str) -> None:
        """Wait for an answer from ``topic``. :raises oslo_messaging.MessageUndeliverable: it has no queue"""

    @abc.abstractmethod
    def describe_host(self, host: str) -> JSONObject:
        """Ask an agent. :raises oslo_messaging.MessageUndeliverable: no agent serves ``host``"""

    @abc.abstractmethod
    def depths(self, queues: Iterable[str]) -> dict[str, broker.Depth | None] | None:
        """Return the length of these queues; None without a broker. :raises broker.BrokerAway:"""

    @abc.abstractmethod
    def nodes(self) -> list[broker.Node]:
        """Return the nodes of the broker; none without a broker."""

    @abc.abstractmethod
    def impatient(self, timeout_s: int) -> contextlib.AbstractContextManager[None]:
        """Wait at most ``timeout_s`` for each answer."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the connection, if there is one."""

    @contextlib.contextmanager
    def _scheduler_failures(self) -> Iterator[None]:
        try:
            yield
        except oslo_messaging.MessagingTimeout as late:
            raise CommandFailed(f"{self._silence(late, 'no scheduler answered')}; is one running?") from None
        except oslo_messaging.RemoteError as broken:
            raise CommandFailed(
                f"the scheduler failed to answer ({broken.exc_type}: {broken.value}); its log has the details"
            ) from None

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
        except oslo_messaging.MessagingTimeout as late:
            raise CommandFailed(f"{self._silence(late)}; is it running?") from None
        except oslo_messaging.MessageUndeliverable as unroutable:
            raise CommandFailed(nobody_takes(str(unroutable.routing_key))) from None
        except oslo_messaging.MessageDeliveryFailure as nobody:
            raise CommandFailed(str(nobody)) from None


def nobody_takes(topic: str) -> str:
    return f"no daemon serves topic {topic}; start fleet-{topic.removeprefix('volume_')}, or see 'fleet doctor'"


def _named(token: str | None) -> Token:
    return {"client_token": token} if token else {}
