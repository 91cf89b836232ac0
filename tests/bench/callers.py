# SPDX-License-Identifier: Apache-2.0
"""Calls a scheduler, or the echo in its place, one call at a time or from several processes at once."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import random
import threading
import time
import uuid
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import oslo_messaging
from oslo_config import cfg

from conductor_stub.steps import request_spec
from fleet import conf as fleet_conf
from fleet.context import new_context
from fleet.objects import Flavor, Image, Instance
from fleet.rpc import serializer, transport
from fleet.rpc.clients import SchedulerAPI
from fleet.rpc.rabbit.conf import STOCK
from tests.bench import echo

_SIZES = ((1, 1792), (2, 3584), (4, 7168))


class EchoAPI(SchedulerAPI):
    """The same call to another topic."""

    def __init__(self, rpc_transport: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts) -> None:
        super().__init__(rpc_transport, conf)
        target = oslo_messaging.Target(topic=echo.TOPIC)
        self._client = oslo_messaging.get_rpc_client(rpc_transport, target, serializer=serializer.ContextSerializer())


class Caller:
    """Calls as the conductor does, with what the conductor sends for one instance.

    The scheduler is called through the driver of the configuration, the echo through oslo.messaging's.
    """

    def __init__(self, config: str, seed: int = 1) -> None:
        conf = fleet_conf.load_config(["--config-file", config], prog="bench", conf=cfg.CONF)
        own = transport.get_transport(conf)
        conf.set_override("rabbit_driver", STOCK)
        stock = transport.get_transport(conf)
        self._transports = own, stock
        self._apis = {"scheduler": SchedulerAPI(own, conf), "echo": EchoAPI(stock, conf)}
        self._chance = random.Random(seed)
        self._numbers = itertools.count()

    def ask(self, whom: str) -> list[dict[str, Any]]:
        spec, properties = self._request()
        return self._apis[whom].select_destinations(new_context(project_id="p"), spec, properties)

    def timed(self, whom: str) -> float:
        began = time.perf_counter()
        self.ask(whom)
        return time.perf_counter() - began

    def close(self) -> None:
        for each in self._transports:
            each.cleanup()
        # oslo.messaging reads the global one: the next caller may have another file.
        cfg.CONF.reset()

    def _request(self) -> tuple[dict[str, Any], dict[str, Any]]:
        vcpus, memory_mb = _SIZES[next(self._numbers) % len(_SIZES)]
        flavor = Flavor(
            vcpus=vcpus, memory_mb=memory_mb, root_gb=10, id=vcpus, name=f"size{vcpus}", flavorid=str(vcpus)
        )
        instance = Instance(
            uuid=str(uuid.UUID(int=self._chance.getrandbits(128))),
            flavor=flavor,
            project_id="p",
            user_id="u",
            reservation_id="r-0123456789abcdef",
            image=Image(),
        )
        spec = {"availability_zone": "", "scheduler_hints": {}, "flavor": flavor.to_wire(), "ignore_hosts": []}
        properties = request_spec.build_filter_properties(spec)
        request_spec.populate_retry(properties, 3, 1, ())
        return request_spec.build_request_spec([instance]), properties


class Crowd:
    """Processes of several threads each, all asking as fast as they are answered."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def per_second(self, whom: str, seconds: float) -> float:
        for pipe in self._pipes:
            pipe.send((whom, seconds))
        return sum(pipe.recv() for pipe in self._pipes)


@contextlib.contextmanager
def crowd(config: str, processes: int, threads: int) -> Iterator[Crowd]:
    spawn = multiprocessing.get_context("spawn")
    pipes, workers = [], []
    for seed in range(processes):
        mine, theirs = spawn.Pipe()
        worker = spawn.Process(target=_work, args=(config, threads, seed + 2, theirs))
        worker.start()
        pipes.append(mine)
        workers.append(worker)
    try:
        yield Crowd(pipes)
    finally:
        for pipe, worker in zip(pipes, workers, strict=True):
            pipe.send(None)
            worker.join()


def _work(config: str, threads: int, seed: int, orders: Connection) -> None:
    callers = Caller(config, seed)
    while (order := orders.recv()) is not None:
        whom, seconds = order
        counts: list[int] = []
        ask = functools.partial(_ask, callers, whom, time.perf_counter() + seconds, counts)
        working = [threading.Thread(target=ask) for _ in range(threads)]
        began = time.perf_counter()
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
        orders.send(sum(counts) / (time.perf_counter() - began))
    callers.close()


def _ask(caller: Caller, whom: str, until: float, counts: list[int]) -> None:
    asked = 0
    while time.perf_counter() < until:
        caller.ask(whom)
        asked += 1
    counts.append(asked)
