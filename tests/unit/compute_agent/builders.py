# SPDX-License-Identifier: Apache-2.0
"""Builders with defaults for whatever a test is not about."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest
from oslo_config import cfg

from compute_agent import conf as agent_conf
from compute_agent.node.resource_tracker import ResourceTracker
from compute_agent.work.build import BuildOrder
from fleet import conf as fleet_conf
from fleet.agent import time_limit
from fleet.context import RequestContext, new_context
from fleet.objects import Flavor, HostLimits, HostReport, Instance
from tests.configuration import configuration

HOST = "host1"
INCARNATION = "this life"


class Notifier:
    """oslo.messaging's, as far as it is used; ``sent`` in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str, dict[str, Any]]] = []
        self._publisher = ""

    def prepare(self, publisher_id: str) -> Notifier:
        self._publisher = publisher_id
        return self

    def info(self, _context: object, event_type: str, content: dict[str, Any]) -> None:
        self.sent.append(("INFO", self._publisher, event_type, content))

    def error(self, _context: object, event_type: str, content: dict[str, Any]) -> None:
        self.sent.append(("ERROR", self._publisher, event_type, content))


def a_conf(fake: dict[str, Any] | None = None, local: dict[str, Any] | None = None, **options: Any) -> cfg.ConfigOpts:
    conf = configuration(fleet_conf.register_opts, agent_conf.register_opts)
    options.setdefault("compute_driver", "fake")
    for group, values in (("fake", fake or {}), ("local", local or {}), (None, options)):
        for name, value in values.items():
            conf.set_override(name, value, group=group)
    return conf


def a_context() -> RequestContext:
    return new_context()


def a_flavor(**sizes: Any) -> Flavor:
    return Flavor(**{"vcpus": 1, "memory_mb": 512, "root_gb": 10, **sizes})


def an_instance(**values: Any) -> Instance:
    return Instance(**{"uuid": str(uuid.uuid4()), "flavor": a_flavor(), "name": "vm", "attempt": 1, **values})


def a_report(**values: Any) -> HostReport:
    return HostReport(**{"host": HOST, "node": HOST, "vcpus": 8, "memory_mb": 8192, "local_gb": 100, **values})


def a_tracker(**report: Any) -> ResourceTracker:
    tracker = ResourceTracker(HOST, HOST)
    tracker.set_report(a_report(**report))
    return tracker


def an_order(instance: Instance, **values: Any) -> BuildOrder:
    return BuildOrder(**{"instance": instance, "attempt": 1, "node": HOST, "limits": HostLimits(), **values})


class SteppingClock:
    """Seconds that only pass when somebody waits on it: the pauses of a ``Patience`` cost no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Pauses(threading.Event):
    """The stop signal of an agent, whose waits move ``clock`` instead of sleeping."""

    def __init__(self, clock: SteppingClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now += timeout or 0.0
        return self.is_set()


class ThreadExecutor(futures.Executor):
    """A thread for each job, as queues expect it: they submit under their lock."""

    def __init__(self) -> None:
        self.started: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        thread = threading.Thread(target=fn, args=args, kwargs=kwargs)
        self.started.append(thread)
        thread.start()
        return futures.Future()

    def join(self) -> None:
        for thread in self.started:
            thread.join()


def lines(caplog: Any, level: int = logging.INFO) -> list[str]:
    """The messages at ``level`` or above."""
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def abandoned(work: Callable[[], object], while_it_hangs: Callable[[], object]) -> BaseException | None:
    """Let work take too long, do something else meanwhile, and return what became of the work.

    :param work: begins when ``while_it_hangs`` has ended
    """
    goes_on, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def hangs() -> None:
        goes_on.wait()
        try:
            work()
        except BaseException as failure:
            raised.append(failure)
        finally:
            ended.set()

    with pytest.raises(time_limit.Overrun):
        time_limit.run_within(a_context(), 0, hangs)
    while_it_hangs()
    goes_on.set()
    ended.wait()
    return raised[0] if raised else None
