# SPDX-License-Identifier: Apache-2.0
"""An empty call through RabbitMQ: the driver of oslo.messaging and the lean driver, as client and as server.

``stock`` is oslo.messaging and nothing else. ``lean`` is the lean driver, with this project's server where it serves.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet import conf as fleet_conf
from fleet.rpc import server, transport
from fleet.rpc.rabbit import defaults
from fleet.rpc.rabbit.conf import LEAN, STOCK
from fleet_trial import private_servers
from tests.bench import figures
from tests.configuration import configuration

KINDS = (STOCK, LEAN)
#: Calls of one pair, one after the other, before it is the next one's turn; the first ones warm the caches.
ROUNDS, CALLS, WARM = 12, 60, 10
PROCESSES, THREADS = 2, 4
TURNS, TURN_S = 4, 2.0
_SERVER_THREADS = 8


class _Echo:
    target = oslo_messaging.Target(version="1.0")

    def echo(self, context: Any, **_arguments: Any) -> None:
        return None


def run() -> None:
    with private_servers.rabbitmq_node() as node, contextlib.ExitStack() as stack:
        for kind in KINDS:
            stack.enter_context(_serving(node.url, kind))
        callers = {kind: _client(node.url, kind) for kind in KINDS}
        pairs = [(client, served) for client in KINDS for served in KINDS]
        times: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
        for number in range(ROUNDS):
            for pair in pairs if number % 2 else pairs[::-1]:
                caller = callers[pair[0]][pair[1]]
                took_s = [figures.timed(functools.partial(caller.call, {}, "echo")) for _call in range(CALLS)]
                times[pair] += took_s[WARM:]
        rates = _rates(node.url, pairs)
    stock = figures.Times(times[STOCK, STOCK]).median_s
    for pair in pairs:
        found = figures.Times(times[pair])
        figures.report(
            "transport",
            client=pair[0],
            server=pair[1],
            **found.to_line(),
            of_stock_median=round(found.median_s / stock, 2),
            calls_per_s=round(rates[pair]),
            of_stock_rate=round(rates[pair] / rates[STOCK, STOCK], 2),
        )


def _conf(url: str, kind: str) -> cfg.ConfigOpts:
    conf = configuration(fleet_conf.register_opts)
    conffixture.ConfFixture(conf, url).setUp()
    conf.set_override("rabbit_driver", kind)
    # As oslo.messaging has it by default, so that both kinds declare the same.
    defaults.register_opts(conf)
    conf.set_override("amqp_durable_queues", False, group=defaults.GROUP)
    return conf


def _bus(url: str, kind: str) -> oslo_messaging.RPCTransport:
    conf = _conf(url, kind)
    return transport.get_transport(conf) if kind == LEAN else oslo_messaging.get_rpc_transport(conf)


def _client(url: str, kind: str) -> dict[str, Any]:
    """Return a client of each server."""
    made = {}
    for served in KINDS:
        target = oslo_messaging.Target(topic=_topic(served), version="1.0")
        made[served] = oslo_messaging.get_rpc_client(_bus(url, kind), target)
    return made


def _topic(served: str) -> str:
    """A queue is named after its topic, whatever the exchange is: each server needs a topic of its own."""
    return f"echo_{served}"


@contextlib.contextmanager
def _serving(url: str, kind: str) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(url, kind, theirs), daemon=True)
    process.start()
    theirs.close()  # so that a server that does not start ends the wait
    ours.recv()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _serve(url: str, kind: str, ready: Connection) -> None:
    bus = _bus(url, kind)
    if kind == LEAN:
        served: Any = server.get_server(bus, _topic(kind), "s1", [_Echo()], server.Options(threads=_SERVER_THREADS))
    else:
        target = oslo_messaging.Target(topic=_topic(kind), server="s1")
        served = oslo_messaging.get_rpc_server(bus, target, [_Echo()], executor="threading")
    served.start()
    ready.send(None)
    threading.Event().wait()


def _rates(url: str, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Return calls a second of eight callers, in turns."""
    spawn = multiprocessing.get_context("spawn")
    pipes = []
    for _process in range(PROCESSES):
        ours, theirs = spawn.Pipe()
        spawn.Process(target=_call, args=(url, theirs), daemon=True).start()
        pipes.append(ours)
    counts = dict.fromkeys(pairs, 0)
    for turn in range(TURNS + 1):
        for pair in pairs:
            for pipe in pipes:
                pipe.send((pair, TURN_S if turn else 0.5))
            made = sum(pipe.recv() for pipe in pipes)
            counts[pair] += made if turn else 0
    for pipe in pipes:
        pipe.send(None)
    return {pair: count / TURNS / TURN_S for pair, count in counts.items()}


def _call(url: str, orders: Connection) -> None:
    clients = {kind: _client(url, kind) for kind in KINDS}
    while (order := orders.recv()) is not None:
        (kind, served), seconds = order
        counts = [0] * THREADS

        def work(number: int, client: Any, until: float, counts: list[int] = counts) -> None:
            while time.monotonic() < until:
                client.call({}, "echo")
                counts[number] += 1

        about = clients[kind][served], time.monotonic() + seconds
        threads = [threading.Thread(target=work, args=(number, *about)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        orders.send(sum(counts))
    sys.exit(0)
