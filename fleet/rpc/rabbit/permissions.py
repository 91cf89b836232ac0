# SPDX-License-Identifier: Apache-2.0
"""The RabbitMQ permissions that each service's user needs, as regular expressions for ``rabbitmqctl``.

Called by :mod:`fleet_cli.upkeep.broker_permissions`. RabbitMQ requires *configure* to declare a queue or an exchange,
*write* to publish to an exchange or to bind a queue, and *read* to consume from a queue or to bind it to an exchange.
On a topic exchange it also checks the routing key.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence

from fleet import domains
from fleet.rpc import ledger_queue

#: Exchange ``""``: replies go through it to the caller's queue.
_REPLIES_GO_BY = "amq.default"
_HEX = "[0-9a-f]+"
_MY_REPLIES = f"reply_{_HEX}"
_CONDUCTOR = ["conductor", ledger_queue.TOPIC]
#: Of virtual machines and of volumes.
_SCHEDULERS = ["scheduler", domains.VOLUME_SCHEDULER]
_VOLUMES = domains.VOLUME_CONDUCTOR


@dataclasses.dataclass(frozen=True)
class Role:
    """``serves``: exchange and topic of its queues (with the names after the topic's dot, as expressions). ``sends``:
    exchange → expressions of routing keys. ``tells``: topics to which it sends fanouts.
    """

    serves: Sequence[tuple[str, str, Sequence[str]]] = ()
    sends: Sequence[tuple[str, Sequence[str]]] = ()
    tells: Sequence[str] = ()
    answers: bool = True


def conductor(exchange: str) -> Role:
    """Sends orders to hosts, calls schedulers, and keeps the hosts' exchange alive with a queue of its own."""
    hosts = f"{exchange}_hosts"
    return Role(
        serves=[*((exchange, topic, [".+"]) for topic in (*_CONDUCTOR, _VOLUMES)), (hosts, "keeper", [".+"])],
        sends=[
            (exchange, ["conductor", r"conductor\..+", _VOLUMES, rf"{_VOLUMES}\..+", *_SCHEDULERS]),
            (hosts, [r"compute\..+", r"volume\..+"]),
        ],
        tells=["scheduler"],
    )


def scheduler(exchange: str) -> Role:
    """Serves calls, sends heartbeats to conductors, and bookings to all schedulers."""
    return Role(
        serves=[(exchange, topic, [".+"]) for topic in _SCHEDULERS],
        sends=[(exchange, [*_CONDUCTOR, *(rf"{topic}\..+" for topic in _SCHEDULERS)])],
        tells=["scheduler"],
    )


def compute(exchange: str, hosts: Sequence[str]) -> Role:
    """Receives the orders of its own hosts, calls conductors, and sends hints to schedulers."""
    return _agent(exchange, "compute", hosts, tells=["scheduler"])


def volume(exchange: str, backends: Sequence[str]) -> Role:
    """Receives the orders of its own storage backends, and calls conductors."""
    return _agent(exchange, "volume", backends)


def _agent(exchange: str, topic: str, hosts: Sequence[str], tells: Sequence[str] = ()) -> Role:
    names = [re.escape(host) for host in hosts]
    mine = [rf"{topic}\.{name}" for name in names]
    return Role(
        serves=[(f"{exchange}_hosts", topic, names)],
        sends=[(exchange, _CONDUCTOR), (f"{exchange}_hosts", mine)],
        tells=tells,
    )


def client(exchange: str) -> Role:
    """The ``fleet`` command: calls conductors, schedulers and (``fleet doctor``) agents; serves nothing."""
    return Role(
        sends=[(exchange, ["conductor", _VOLUMES, *_SCHEDULERS]), (f"{exchange}_hosts", [r"compute\..+"])],
        answers=False,
    )


def commands(role: Role, user: str, vhost: str) -> list[str]:
    """Return the ``rabbitmqctl`` commands for an existing user."""
    where = ["rabbitmqctl", "set_permissions", "-p", vhost, user]
    lines = [[*where, _any(_configures(role)), _any(_writes(role)), _any(_reads(role))]]
    for exchange in _topic_exchanges(role):
        sent = [key for name, keys in role.sends if name == exchange for key in keys]
        bound = [key for name, topic, servers in role.serves if name == exchange for key in _keys(topic, servers)]
        topics = ["rabbitmqctl", "set_topic_permissions", "-p", vhost, user, exchange]
        lines.append([*topics, _any(sent), _any(bound)])
    return [shlex.join(line) for line in lines]


def _any(names: Sequence[str]) -> str:
    """Return an expression that matches exactly these names; without names it matches nothing."""
    return f"^({'|'.join(dict.fromkeys(names))})$" if names else "^$"


def _keys(topic: str, servers: Sequence[str]) -> list[str]:
    return [topic, *(rf"{topic}\.{server}" for server in servers)]


def _queues(role: Role) -> list[str]:
    """Return expressions of the queues of a topic: the topic's, the server's, the host's of a connection, for fanouts."""
    return [
        name
        for _exchange, topic, servers in role.serves
        for name in [
            *_keys(topic, servers),
            *(rf"{topic}\.{server}_{_HEX}" for server in servers),
            rf"{topic}_fanout_{_HEX}",
        ]
    ]


def _topic_exchanges(role: Role) -> list[str]:
    return list(dict.fromkeys([name for name, *_ in role.serves] + [name for name, _ in role.sends]))


def _told(role: Role) -> list[str]:
    return [f"{topic}_fanout" for topic in role.tells]


def _heard(role: Role) -> list[str]:
    return [f"{topic}_fanout" for _exchange, topic, _servers in role.serves]


def _configures(role: Role) -> list[str]:
    # A publisher declares the exchange first.
    return [*map(re.escape, _topic_exchanges(role)), *_told(role), *_heard(role), *_queues(role), _MY_REPLIES]


def _writes(role: Role) -> list[str]:
    sends = [re.escape(name) for name, _keys_ in role.sends]
    answers = [re.escape(_REPLIES_GO_BY)] if role.answers else []
    return [*sends, *_told(role), *_queues(role), *answers]


def _reads(role: Role) -> list[str]:
    return [*(re.escape(name) for name, *_ in role.serves), *_heard(role), *_queues(role), _MY_REPLIES]
