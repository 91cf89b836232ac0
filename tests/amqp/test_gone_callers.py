# SPDX-License-Identifier: Apache-2.0
"""Callers that end before they are answered delay no other caller; one that publishes a call again gets the answer."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import amqp
import oslo_messaging
import pytest

from tests.amqp import raw
from tests.amqp.daemons import Trio, eventually

CALLS = 400


@pytest.mark.parametrize("topic", ["conductor", "conductor_ledger"])
@pytest.mark.parametrize("method", ["get_host_instances", "report_hosts"], ids=["answered", "refused"])
def test_answers_to_nobody_hold_nobody_up(
    trio: Trio, rabbitmq_url: str, health_port: int, topic: str, method: str
) -> None:
    """Heartbeats and users' calls are served meanwhile: each of these would take a worker for a minute otherwise."""
    # A worker that another test has started has no page yet.
    (before,) = eventually(lambda: (dropped(health_port),), retry_on=OSError)
    with raw.channel(rabbitmq_url) as channel:
        for number in range(CALLS):
            raw.send(channel, topic, raw.call(method, f"reply_gone_{number}", host="h"))
        # Workers that are held for a minute by each answer would serve nobody for ten minutes.
        for _time in range(5):
            eventually(lambda: (trio.compute_beat(),), retry_on=oslo_messaging.MessagingTimeout)
            eventually(lambda: (trio.operator_at_once("list_hosts"),), retry_on=oslo_messaging.MessagingTimeout)
    eventually(lambda: dropped(health_port) - before >= CALLS)
    # The workers are none the worse for it.
    trio.wait_for_hosts(6)


def dropped(port: int) -> float:
    """By both workers."""
    found = 0.0
    for worker in (port, port + 1):
        with urllib.request.urlopen(f"http://127.0.0.1:{worker}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        found += sum(float(line.split()[1]) for line in lines if line.startswith("fleet_rpc_answers_dropped_total"))
    return found


def test_agents_have_a_queue_of_their_own(trio: Trio, rabbitmq_url: str) -> None:
    """With consumers of its own: what users send waits in another."""
    with raw.channel(rabbitmq_url) as channel:

        def consumers() -> list[int]:
            names = "conductor", "conductor_ledger"
            return [channel.queue_declare(name, passive=True).consumer_count for name in names]

        # Two workers, each of which listens to both.
        eventually(lambda: [2, 2] == consumers())


def test_a_call_that_is_published_again_has_its_answer_in_the_new_queue(trio: Trio, rabbitmq_url: str) -> None:
    """Whichever of the two workers receives it: the flavor is made once, and deleted once."""
    flavor = {"name": "published-twice", "vcpus": 1, "memory_mb": 64}
    with raw.channel(rabbitmq_url) as channel:
        for method, arguments in (
            ("create_flavor", {"flavor": flavor}),
            ("delete_flavor", {"name": flavor["name"]}),
        ) * 3:
            former, new = (channel.queue_declare(f"reply_{name}", exclusive=True).queue for name in ("former", "newer"))
            first = raw.call(method, former, "operator", "1.5", **arguments)
            for each in (first, first.replace(former.encode(), new.encode())):
                raw.send(channel, "conductor", each)
            answers = [_answer(channel, each) for each in (former, new)]
            assert answers[0] == answers[1]
            assert [None, None] == [each[1] for each in answers]
    assert flavor["name"] not in [each["name"] for each in trio.operator_at_once("list_flavors")]


def _answer(channel: amqp.Channel, queue_name: str) -> tuple[Any, Any]:
    """Result and failure."""
    message = eventually(lambda: channel.basic_get(queue_name, no_ack=True))
    content = json.loads(json.loads(message.body)["oslo.message"])
    return content["result"], content["failure"]
