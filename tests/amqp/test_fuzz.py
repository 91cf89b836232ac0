# SPDX-License-Identifier: Apache-2.0
"""Malformed messages to every queue cost a line a minute: no traceback, no new connection, and others are served."""

from __future__ import annotations

import collections
import json
import pathlib
import time
from collections.abc import Iterator

import amqp
import pytest

from tests.amqp import fuzz, raw
from tests.amqp.daemons import Trio, delete_service, eventually

SEED = 20260
MESSAGES = 3600
DAEMONS = ("conductor", "scheduler", "agent-a", "agent-b", "fuzzed")
HOSTS = [f"{rack}{number}" for rack in "ab" for number in (1, 2, 3)]
BACKENDS = ["fuzzed@x", "fuzzed@y"]
_VOLUMES = """\
[DEFAULT]
host = fuzzed
enabled_backends = x,y
volume_state_path = {directory}
[backend_defaults]
volume_driver = fake
fake_pools = p:100
"""
#: What a daemon says of a broken connection, or oslo.messaging of a message that it could not read.
TROUBLE = ("Traceback", "Logging error", "Connecting to the broker anew", "Failed to process message", "Reconnected to")


@pytest.fixture
def fuzzed(trio: Trio, tmp_path: pathlib.Path) -> Iterator[Trio]:
    """With a volume agent."""
    config = tmp_path / "volume.conf"
    config.write_text(_VOLUMES.format(directory=tmp_path))
    trio.start("fuzzed", "fleet-volume", "--config-file", str(config))
    eventually(lambda: len([each for each in trio.operator("list_pools") if each["name"].startswith("fuzzed")]) == 2)
    yield trio
    trio.stop("fuzzed")
    for backend in BACKENDS:
        delete_service(trio, backend, "fleet-volume")
    trio.forget("fuzzed")


def test_malformed_messages(fuzzed: Trio, rabbitmq_url: str) -> None:
    """Of every kind, to every method, while users boot and make volumes."""
    trio = fuzzed
    made = []
    before = {name: len(trio.log(name)) for name in DAEMONS}
    began = time.monotonic()
    answers: collections.Counter[str] = collections.Counter()
    with raw.channel(rabbitmq_url) as channel:
        reply_to = channel.queue_declare("", exclusive=True).queue
        booted = []
        for number, message in enumerate(fuzz.messages(SEED, MESSAGES, HOSTS, BACKENDS, reply_to)):
            body = amqp.Message(message.body, **message.properties)
            channel.basic_publish(body, message.exchange, message.routing_key)
            if number % 600 == 599:
                booted += trio.boot()
                made += trio.operator("create_volumes", request={"size": 1})["volumes"]
        trio.wait_for(booted, "active")
        uuids = [each["uuid"] for each in made]
        eventually(lambda: {"available"} == _statuses(trio, uuids))
        # What was sent last has been handled when its queue is empty and a call behind it is answered.
        eventually(lambda: all(_is_empty(channel, queue) for queue in _queues()))
        assert all(trio.describe_host(host) for host in HOSTS)
        while (answer := channel.basic_get(reply_to, no_ack=True)) is not None:
            answers[_kind(answer.body)] += 1

        for uuid in uuids:
            trio.operator("delete_volume", name=uuid)
        eventually(lambda: not trio.operator("list_volumes", filters={"uuids": uuids}))

    said = {name: trio.log(name)[before[name] :] for name in DAEMONS}
    found = [(name, line) for name, text in said.items() for line in text.splitlines() if any(map(line.count, TROUBLE))]
    assert [] == found
    refused = {name: text.count("A message is refused") for name, text in said.items()}
    # A line a minute for each queue and reason; the conductor's two workers read three queues, the others fewer.
    minutes = 1 + int(time.monotonic() - began) // 60
    assert refused.pop("conductor") <= 30 * minutes
    assert all(count <= 20 * minutes for count in refused.values()), refused
    # Callers are told by name what is wrong.
    assert answers["InvalidInput"] > MESSAGES / 10, answers
    assert not {"TypeError", "AttributeError", "ValueError", "KeyError", "RecursionError"} & set(answers), answers

    for uuid in uuids:
        trio.operator("delete_volume", name=uuid)
    eventually(lambda: not trio.operator("list_volumes", filters={"uuids": uuids}))


def _statuses(trio: Trio, uuids: list[str]) -> set[str]:
    return {each["status"] for each in trio.operator("list_volumes", filters={"uuids": uuids})}


def _queues() -> list[str]:
    """Those of agents are of their connections: nobody else may look at them."""
    return ["conductor", "conductor_ledger", "scheduler", "volume_conductor", "volume_scheduler"]


def _is_empty(channel: amqp.Channel, queue: str) -> bool:
    return not channel.queue_declare(queue, passive=True).message_count


def _kind(body: object) -> str:
    """The name of the answer's error; "result" if it is none."""

    text = body.decode() if isinstance(body, bytes) else str(body)
    failure = json.loads(json.loads(text)["oslo.message"])["failure"]
    return json.loads(failure)["class"] if failure else "result"
