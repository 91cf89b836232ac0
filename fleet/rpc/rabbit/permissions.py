# SPDX-License-Identifier: Apache-2.0
"""What each service's RabbitMQ user must be allowed, and no more: regular expressions for ``rabbitmqctl``.

RabbitMQ asks for *configure* to declare a queue or an exchange, for *write* to publish to an exchange or to bind a queue,
for *read* to consume from a queue or to bind it to an exchange; and on a topic exchange, for the routing key too.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence

from fleet.rpc import ledger_queue

#: Exchange ``""``, by which replies go to the queue of who has asked.
_REPLIES_GO_BY = "amq.default"
_HEX = "[0-9a-f]+"
_MY_REPLIES = f"reply_{_HEX}"
_CONDUCTOR = ["conductor", ledger_queue.TOPIC]


@dataclasses.dataclass(frozen=True)
class Role:
    """``serves``: exchange and topic of its queues (and the names after the topic's dot, as expressions);
    ``sends``: exchange → expressions of routing keys; ``tells``: topics that it sends to all servers of."""

    serves: Sequence[tuple[str, str, Sequence[str]]] = ()
    sends: Sequence[tuple[str, Sequence[str]]] = ()
    tells: Sequence[str] = ()
    answers: bool = True


def conductor(exchange: str) -> Role:
    """Orders hosts about, asks schedulers, and holds the hosts' exchange with a queue of its own."""
    hosts = f"{exchange}_hosts"
    return Role(
        serves=[(exchange, "conductor", [".+"]), (exchange, ledger_queue.TOPIC, [".+"]), (hosts, "keeper", [".+"])],
        sends=[(exchange, ["conductor", r"conductor\..+", "scheduler"]), (hosts, [r"compute\..+"])],
        tells=["scheduler"],
    )


def scheduler(exchange: str) -> Role:
    """Answers, and says to a conductor that it lives."""
    return Role(serves=[(exchange, "scheduler", [".+"])], sends=[(exchange, [*_CONDUCTOR, r"scheduler\..+"])])


def compute(exchange: str, hosts: Sequence[str]) -> Role:
    """Takes the orders of its own hosts, and tells conductors, and schedulers as hints."""
    names = [re.escape(host) for host in hosts]
    mine = [rf"compute\.{name}" for name in names]
    return Role(
        serves=[(f"{exchange}_hosts", "compute", names)],
        sends=[(exchange, _CONDUCTOR), (f"{exchange}_hosts", mine)],
        tells=["scheduler"],
    )


def client(exchange: str) -> Role:
    """``fleet``: asks conductors, schedulers and (``fleet doctor``) agents; serves nothing."""
    return Role(sends=[(exchange, ["conductor", "scheduler"]), (f"{exchange}_hosts", [r"compute\..+"])], answers=False)


def commands(role: Role, user: str, vhost: str) -> list[str]:
    """Of ``rabbitmqctl``, for a user that is there."""
    where = ["rabbitmqctl", "set_permissions", "-p", vhost, user]
    lines = [[*where, _any(_configures(role)), _any(_writes(role)), _any(_reads(role))]]
    for exchange in _topic_exchanges(role):
        sent = [key for name, keys in role.sends if name == exchange for key in keys]
        bound = [key for name, topic, servers in role.serves if name == exchange for key in _keys(topic, servers)]
        topics = ["rabbitmqctl", "set_topic_permissions", "-p", vhost, user, exchange]
        lines.append([*topics, _any(sent), _any(bound)])
    return [shlex.join(line) for line in lines]


def _any(names: Sequence[str]) -> str:
    """An expression for exactly these; nothing matches none."""
    return f"^({'|'.join(dict.fromkeys(names))})$" if names else "^$"


def _keys(topic: str, servers: Sequence[str]) -> list[str]:
    return [topic, *(rf"{topic}\.{server}" for server in servers)]


def _queues(role: Role) -> list[str]:
    """oslo.messaging serves a topic by three: the topic's, the server's, and one for what is said to all."""
    return [
        name
        for _exchange, topic, servers in role.serves
        for name in [*_keys(topic, servers), rf"{topic}_fanout_{_HEX}"]
    ]


def _topic_exchanges(role: Role) -> list[str]:
    return list(dict.fromkeys([name for name, *_ in role.serves] + [name for name, _ in role.sends]))


def _told(role: Role) -> list[str]:
    return [f"{topic}_fanout" for topic in role.tells]


def _heard(role: Role) -> list[str]:
    return [f"{topic}_fanout" for _exchange, topic, _servers in role.serves]


def _configures(role: Role) -> list[str]:
    # Whoever publishes declares the exchange first.
    return [*map(re.escape, _topic_exchanges(role)), *_told(role), *_heard(role), *_queues(role), _MY_REPLIES]


def _writes(role: Role) -> list[str]:
    sends = [re.escape(name) for name, _keys_ in role.sends]
    answers = [re.escape(_REPLIES_GO_BY)] if role.answers else []
    return [*sends, *_told(role), *_queues(role), *answers]


def _reads(role: Role) -> list[str]:
    return [*(re.escape(name) for name, *_ in role.serves), *_heard(role), *_queues(role), _MY_REPLIES]
