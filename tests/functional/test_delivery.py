# SPDX-License-Identifier: Apache-2.0
"""What the broker does with messages to agents that are gone, and to workers that have enough or stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet.context import new_context
from fleet.rpc import clients, pins, server, transport, versions
from fleet.rpc.rabbit import defaults
from tests.amqp.daemons import eventually
from tests.configuration import configuration

BACKLOG = 200


class Worker:
    """Serves a topic with two threads; handlers wait for ``gate``."""

    target = oslo_messaging.Target(version=versions.CURRENT["compute"])

    def __init__(self, bus: oslo_messaging.RPCTransport, topic: str, name: str, exchange: str | None = None) -> None:
        self.gate = threading.Event()
        self.taken: list[int] = []
        self.draining = threading.Event()
        self._server = server.get_server(
            bus, topic, name, [self], server.Options(exchange=exchange, draining=self.draining)
        )
        self._server.start(override_pool_size=2)

    def terminate_instance(self, _context: object, instance_uuid: str) -> None:
        """An order of a host."""

    def work(self, _context: object, number: int) -> None:
        self.taken.append(number)
        self.gate.wait()

    def stop(self) -> None:
        self.gate.set()
        self._server.stop()
        self._server.wait()


class Work(clients.API):
    topic = "work"


@pytest.fixture(params=["classic", "quorum"])
def conf(request: pytest.FixtureRequest, rabbitmq_url: str) -> Iterator[cfg.ConfigOpts]:
    """Durable and quorum queues, as a broker for production has them."""
    conf = configuration(pins.register_opts)
    fixture = conffixture.ConfFixture(conf, transport_url=rabbitmq_url)
    fixture.setUp()
    conf.set_override("control_exchange", f"fleet_{request.param}")
    conf.set_override("amqp_durable_queues", True, group="oslo_messaging_rabbit")
    conf.set_override("rabbit_quorum_queue", request.param == "quorum", group="oslo_messaging_rabbit")
    yield conf
    fixture.cleanUp()


@pytest.fixture
def bus(conf: cfg.ConfigOpts) -> Iterator[oslo_messaging.RPCTransport]:
    opened = transport.get_transport(conf)
    yield opened
    opened.cleanup()


@pytest.fixture
def host_bus(conf: cfg.ConfigOpts, bus: oslo_messaging.RPCTransport) -> Iterator[oslo_messaging.RPCTransport]:
    opened = transport.get_host_transport(conf, bus)
    yield opened
    opened.cleanup()


def test_a_cast_to_an_agent_that_is_gone_fails_at_once(conf: cfg.ConfigOpts, host_bus) -> None:
    """The host's queue goes with its agent, also where all other queues are durable, and comes back with the next. "At once"
    is long before the conductor would call the host dead.
    """
    compute = clients.ComputeAPI(host_bus, conf)
    exchange = transport.host_exchange(conf)
    keeper = server.get_keeper(host_bus, exchange, "conductor")
    keeper.start()
    for _life in range(2):
        with pytest.raises(oslo_messaging.MessageUndeliverable):
            compute.terminate_instance(new_context(), "h1", "never")
        agent = Worker(host_bus, "compute", "h1", exchange)
        compute.terminate_instance(new_context(), "h1", "an order")
        agent.stop()
    begun = time.monotonic()
    with pytest.raises(oslo_messaging.MessageUndeliverable):
        compute.build_and_run_instance(new_context(), "h1", instance={})
    assert time.monotonic() - begun < 30
    keeper.stop()
    keeper.wait()


def test_a_worker_takes_no_more_than_it_has_threads_for(conf: cfg.ConfigOpts, bus) -> None:
    """Of a backlog a blocked worker holds its threads' worth and the prefetch; another gets the rest; none is lost."""
    blocked = Worker(bus, f"work-{conf.control_exchange}", "one")
    tasks = Work(bus, conf)
    tasks._client = tasks._client.prepare(topic=f"work-{conf.control_exchange}")
    for number in range(BACKLOG):
        tasks._client.cast(new_context(), "work", number=number)
    eventually(lambda: len(blocked.taken) == 2)
    second_bus = transport.get_transport(conf)
    helper = Worker(second_bus, f"work-{conf.control_exchange}", "two")
    helper.gate.set()
    most_held = 2 + 1 + defaults.PREFETCH
    eventually(lambda: len(helper.taken) >= BACKLOG - most_held)
    assert 2 == len(blocked.taken)
    blocked.stop()
    eventually(lambda: len(blocked.taken) + len(helper.taken) == BACKLOG)
    helper.stop()
    second_bus.cleanup()
    assert set(range(BACKLOG)) == {*blocked.taken, *helper.taken}
