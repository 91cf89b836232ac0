# SPDX-License-Identifier: Apache-2.0
"""The notifications of nova-scheduler: before and after a request, in the forms that the configuration wants."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.context import new_context
from fleet.rpc import nova_broker
from fleet.rpc.transport import get_transport
from scheduler.nova import conf as nova_conf
from scheduler.nova.notifications import Notifications
from tests.unit.scheduler.nova import recordings
from tests.unit.scheduler.nova.recordings import message
from tests.unit.scheduler.nova.worlds import CELL, EndpointInMemory
from tests.unit.scheduler.plugins import configuration


class Listener:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def info(self, _context: object, event_type: str, payload: Any) -> None:
        self.heard.append((event_type, payload))


def _listened(world: EndpointInMemory) -> tuple[Listener, Listener]:
    older, versioned = Listener(), Listener()
    world.endpoint._notifications = Notifications(older, versioned)
    return older, versioned


def test_a_request_that_is_answered() -> None:
    """A start and an end, each in both forms."""
    world = EndpointInMemory()
    older, versioned = _listened(world)
    world.select(message("req_build_1")["args"])
    events = ["scheduler.select_destinations.start", "scheduler.select_destinations.end"]
    assert events == [event for event, _payload in older.heard] == [event for event, _payload in versioned.heard]
    (_event, sent), (_event, payload) = older.heard[0], versioned.heard[0]
    assert {"image", "instance_properties", "instance_type", "num_instances"} == set(sent["request_spec"])
    assert ("RequestSpecPayload", "1.1") == (payload["nova_object.name"], payload["nova_object.version"])
    data = payload["nova_object.data"]
    assert ("small", ["default"]) == (data["flavor"]["nova_object.data"]["name"], data["security_groups"])


def test_a_request_that_is_refused() -> None:
    """Has no end, as with nova-scheduler; and one that cannot be read has not begun."""
    world = EndpointInMemory()
    older, versioned = _listened(world)
    args = message("req_build_1")["args"]
    args["spec_obj"]["nova_object.data"]["flavor"]["nova_object.data"]["memory_mb"] = 10**6
    world.refused(args)
    assert ["scheduler.select_destinations.start"] == [event for event, _payload in older.heard]
    args["spec_obj"]["nova_object.data"]["flavor"] = None
    world.refused(args)
    assert 1 == len(older.heard) == len(versioned.heard)


def test_a_request_of_an_old_conductor() -> None:
    """Has the older form only."""
    world = EndpointInMemory()
    older, versioned = _listened(world)
    world.select(message("req_v40")["args"])
    assert (2, []) == (len(older.heard), versioned.heard)


@pytest.mark.parametrize("name", recordings.REQUESTS)
def test_no_password_is_sent(name: str) -> None:
    """A move carries the URLs of its cell."""
    args = message(name)["args"]
    if "spec_obj" not in args:
        return
    listened = Listener(), Listener()
    cell = {"uuid": CELL, "name": "cell1", "database_connection": "url-secret", "transport_url": "url-secret"}
    data = args["spec_obj"]["nova_object.data"]
    data["requested_destination"] = {"nova_object.data": {"cell": {"nova_object.data": cell}, "host": None}}
    notifications = Notifications(*listened)
    notifications.started(new_context(), args)
    assert "url-secret" not in json.dumps([each.heard for each in listened])
    assert 2 == sum(len(each.heard) for each in listened)


@pytest.mark.parametrize(
    ("wanted", "driver", "sends"),
    [
        ("both", "messagingv2", 2),
        ("versioned", "messagingv2", 1),
        ("unversioned", "messagingv2", 1),
        ("both", "noop", 0),
    ],
)
def test_what_the_options_say(wanted: str, driver: str, sends: int) -> None:
    conf = configuration()
    nova_conf.register_opts(conf)
    conf.set_override("notification_format", wanted, "notifications")
    Notifications.from_conf(conf)  # registers the options of oslo.messaging
    conf.set_override("driver", [driver], "oslo_messaging_notifications")
    assert sends == len(Notifications.from_conf(conf)._sends)


def test_exchanges_and_queues_are_declared_as_by_nova() -> None:
    """By the notifier as well: RabbitMQ refuses an exchange that is declared with other arguments."""
    conf = configuration()
    nova_conf.register_opts(conf)
    nova_broker.register_opts(conf)
    conf.set_override("transport_url", "rabbit://nova:secret@broker.example/", "nova")
    nova_broker.use(conf)
    get_transport(conf).cleanup()
    conf.set_override("notification_format", "both", "notifications")
    Notifications.from_conf(conf)
    assert conf.oslo_messaging_rabbit.amqp_durable_queues is False
