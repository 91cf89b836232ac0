# SPDX-License-Identifier: Apache-2.0
"""Many hosts behind one connection: each has its own orders, comes and goes by itself, and is there after the broker."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet.context import new_context
from fleet.rpc import clients, pins, server, transport, versions
from fleet.rpc.rabbit import host_queues
from fleet.rpc.rabbit.conf import LEAN, OPTIONS, STOCK
from fleet_trial import private_servers
from tests.amqp.daemons import eventually

HOSTS = ("h1", "h2", "h3")
ORDERS = 50
#: Virtual hosts that are made: at least one for each test and driver.
MOST_TESTS = 10


class Host:
    """An agent's endpoint, which stores the orders it receives."""

    target = oslo_messaging.Target(version=versions.CURRENT["compute"])

    def __init__(self, name: str, open_server: Callable[..., server.Server]) -> None:
        self.name = name
        self.orders: list[str] = []
        self._server = open_server(name, self)
        self._server.start(override_pool_size=1)

    def terminate_instance(self, _context: object, instance_uuid: str) -> None:
        self.orders.append(instance_uuid)

    def describe_host(self, _context: object) -> str:
        return self.name

    def stop(self) -> None:
        self._server.stop()
        self._server.wait()


@pytest.fixture(scope="module")
def urls(broker: private_servers.RabbitMQ) -> Iterator[str]:
    """Transport URLs of virtual hosts, one for each test; all are made at once, which takes a second of a processor."""
    return iter(broker.vhosts(*(f"host-queues-{uuid.uuid4()}" for _ in range(MOST_TESTS))).values())


@pytest.fixture(params=[pytest.param(STOCK, marks=pytest.mark.long), LEAN])
def conf(request: pytest.FixtureRequest, urls: Iterator[str]) -> Iterator[cfg.ConfigOpts]:
    conf = cfg.ConfigOpts()
    pins.register_opts(conf)
    conf.register_opts(OPTIONS)
    conf([], default_config_files=[])
    conf.set_override("rabbit_driver", request.param)
    fixture = conffixture.ConfFixture(conf, transport_url=next(urls))
    fixture.setUp()
    yield conf
    fixture.cleanUp()


@pytest.fixture
def compute(conf: cfg.ConfigOpts) -> Iterator[clients.ComputeAPI]:
    """What sends orders, on a connection of its own; the hosts' exchange is kept for it."""
    bus = transport.get_transport(conf)
    host_bus = transport.get_host_transport(conf, bus)
    keeper = server.get_keeper(host_bus, transport.host_exchange(conf), "test")
    keeper.start()
    yield clients.ComputeAPI(host_bus, conf)
    keeper.stop()
    keeper.wait()
    host_bus.cleanup()


@pytest.fixture
def open_server(conf: cfg.ConfigOpts) -> Iterator[Callable[..., server.Server]]:
    """Of the hosts, which share what there is to be shared."""
    bus = transport.get_host_transport(conf, transport.get_transport(conf))
    exchange = transport.host_exchange(conf)
    queues = host_queues.of(bus, "compute", exchange)
    options = server.Options(exchange=exchange, queues=queues)
    yield lambda name, endpoint: server.get_server(bus, "compute", name, [endpoint], options)
    bus.cleanup()


@pytest.fixture
def hosts(open_server: Callable[..., server.Server]) -> Iterator[dict[str, Host]]:
    serving = {name: Host(name, open_server) for name in HOSTS}
    yield serving
    with contextlib.ExitStack() as stops:
        for host in serving.values():
            stops.callback(host.stop)


def _vhost(conf: cfg.ConfigOpts) -> str:
    url: str = conf.transport_url
    return url.rpartition("/")[2]


def _order(compute: clients.ComputeAPI, host: str, number: int) -> None:
    compute.terminate_instance(new_context(), host, f"{host}-{number}")


def _answers(compute: clients.ComputeAPI, host: str) -> bool:
    with contextlib.suppress(oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable):
        return compute.describe_host(new_context(), host) == host
    return False


def test_each_host_has_its_orders_in_their_order(compute: clients.ComputeAPI, hosts: dict[str, Host]) -> None:
    """What is sent to the hosts in turns comes to each as it was sent; a call is answered by its host."""
    for number in range(ORDERS):
        for name in HOSTS:
            _order(compute, name, number)
    eventually(lambda: all(len(host.orders) == ORDERS for host in hosts.values()))
    for name, host in hosts.items():
        assert [f"{name}-{number}" for number in range(ORDERS)] == host.orders
        assert name == compute.describe_host(new_context(), name)


def test_hosts_share_one_connection(
    broker: private_servers.RabbitMQ,
    conf: cfg.ConfigOpts,
    compute: clients.ComputeAPI,
    hosts: dict[str, Host],
) -> None:
    """One consumer a host, and all of them on the same channel. The stock driver has three a host, on three channels."""
    listed = broker.ctl("list_consumers", "-p", _vhost(conf), "queue_name", "channel_pid").splitlines()
    channels = [line.split()[1] for line in listed if line.startswith("compute")]
    expected = (len(HOSTS), 1) if conf.rabbit_driver == LEAN else (3 * len(HOSTS), len(HOSTS))
    assert expected == (len(channels), len(set(channels)))


def test_a_host_that_leaves_has_no_queue_and_the_others_go_on(
    compute: clients.ComputeAPI, hosts: dict[str, Host], open_server: Callable[..., server.Server]
) -> None:
    """An order to a host without an agent is undeliverable at once, until an agent serves it again."""
    hosts["h2"].stop()
    with pytest.raises(oslo_messaging.MessageUndeliverable):
        _order(compute, "h2", 0)
    _order(compute, "h1", 0)
    hosts["h2"] = Host("h2", open_server)
    _order(compute, "h2", 1)
    eventually(lambda: (["h1-0"], ["h2-1"]) == (hosts["h1"].orders, hosts["h2"].orders))


def test_what_was_sent_before_a_host_leaves_is_handled(compute: clients.ComputeAPI, hosts: dict[str, Host]) -> None:
    """The stop waits for all messages that the broker has delivered."""
    _order(compute, "h1", 0)
    hosts["h1"].stop()
    assert ["h1-0"] == hosts["h1"].orders


def test_all_hosts_are_back_after_a_lost_connection(
    broker: private_servers.RabbitMQ,
    conf: cfg.ConfigOpts,
    compute: clients.ComputeAPI,
    hosts: dict[str, Host],
) -> None:
    """The connection, or a queue under its consumer: both are declared again, for every host.

    A call whose host's queue goes meanwhile is lost with the queue, so calls wait for a short time only.
    """
    conf.set_override("rpc_response_timeout", 2)
    broker.ctl("close_all_connections", "--vhost", _vhost(conf), "test")
    eventually(lambda: all(_answers(compute, name) for name in HOSTS))
    names = broker.ctl("list_queues", "-p", _vhost(conf), "name", "--no-table-headers").split()
    (of_h3,) = [name for name in names if re.fullmatch(r"compute\.h3(_[0-9a-f]{32})?", name)]
    broker.ctl("delete_queue", "-p", _vhost(conf), of_h3)
    eventually(lambda: all(_answers(compute, name) for name in HOSTS))


def test_without_a_broker_there_is_nothing_to_share() -> None:
    """The brokerless transport wakes by itself: its servers keep their own listeners."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    fixture = conffixture.ConfFixture(conf, transport_url="fake://")
    fixture.setUp()
    assert host_queues.of(transport.get_transport(conf), "compute", "fleet_hosts") is None
    fixture.cleanUp()
