# SPDX-License-Identifier: Apache-2.0
"""Malformed messages to every queue cost a line a minute: no traceback, no new connection, and others are served."""

from __future__ import annotations

import collections
import json

import amqp

from tests.amqp import fuzz, raw
from tests.amqp.daemons import Trio, eventually

SEED = 20260
MESSAGES = 2400
DAEMONS = ("conductor", "scheduler", "agent-a", "agent-b")
HOSTS = [f"{rack}{number}" for rack in "ab" for number in (1, 2, 3)]
#: What a daemon says of a broken connection, or oslo.messaging of a message that it could not read.
TROUBLE = ("Traceback", "Logging error", "Connecting to the broker anew", "Failed to process message", "Reconnected to")


def test_malformed_messages(trio: Trio, rabbitmq_url: str) -> None:
    """Of every kind, to every method, while users boot."""
    before = {name: len(trio.log(name)) for name in DAEMONS}
    answers: collections.Counter[str] = collections.Counter()
    with raw.channel(rabbitmq_url) as channel:
        reply_to = channel.queue_declare("", exclusive=True).queue
        booted = []
        for number, message in enumerate(fuzz.messages(SEED, MESSAGES, HOSTS, reply_to)):
            body = amqp.Message(message.body, **message.properties)
            channel.basic_publish(body, message.exchange, message.routing_key)
            if number % 600 == 599:
                booted += trio.boot()
        trio.wait_for(booted, "active")
        # What was sent last has been handled when its queue is empty and a call behind it is answered.
        eventually(lambda: all(_is_empty(channel, queue) for queue in _queues()))
        while (answer := channel.basic_get(reply_to, no_ack=True)) is not None:
            answers[_kind(answer.body)] += 1

    said = {name: trio.log(name)[before[name] :] for name in DAEMONS}
    found = [(name, line) for name, text in said.items() for line in text.splitlines() if any(map(line.count, TROUBLE))]
    assert [] == found
    refused = {name: text.count("A message is refused") for name, text in said.items()}
    assert all(count <= 20 for count in refused.values()), refused
    # Callers are told by name what is wrong.
    assert answers["InvalidInput"] > MESSAGES / 10, answers
    assert not {"TypeError", "AttributeError", "ValueError", "KeyError", "RecursionError"} & set(answers), answers


def _queues() -> list[str]:
    return ["conductor", "conductor_ledger", "scheduler", *(f"compute.{host}" for host in HOSTS)]


def _is_empty(channel: amqp.Channel, queue: str) -> bool:
    return not channel.queue_declare(queue, passive=True).message_count


def _kind(body: object) -> str:
    """The name of the answer's error; "result" if it is none."""

    text = body.decode() if isinstance(body, bytes) else str(body)
    failure = json.loads(json.loads(text)["oslo.message"])["failure"]
    return json.loads(failure)["class"] if failure else "result"
