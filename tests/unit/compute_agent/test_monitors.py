# SPDX-License-Identifier: Apache-2.0
"""Monitors measure the host; the values reach the ledger and the notifications."""

from __future__ import annotations

import collections
import logging
from typing import Any

import pytest

from compute_agent import monitors
from compute_agent.ledger.notifications import Notifications
from compute_agent.monitors import Monitors
from compute_agent.monitors.base import Monitor
from compute_agent.monitors.cpu import CpuMonitor
from fleet import errors
from tests.clock import FakeClock
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST, Notifier

Times = collections.namedtuple("Times", "user system idle iowait guest")


class Fixed(Monitor):
    """Returns given values."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def measure(self) -> dict[str, float]:
        return self._values


class Broken(Monitor):
    def __init__(self) -> None:
        """It has no configuration."""


def test_the_share_of_each_kind_of_time() -> None:
    """Of 100 seconds since the last measurement; what guests use is in the users' time already."""
    times = iter([Times(10, 10, 100, 0, 5), Times(30, 20, 160, 10, 25), Times(30, 20, 160, 10, 25)])
    monitor = CpuMonitor(builders.a_conf(), lambda: next(times), lambda: None)
    shares = {"user": 0.2, "kernel": 0.1, "idle": 0.6, "iowait": 0.1}
    expected = {f"cpu.{name}.percent": share for name, share in shares.items()} | {"cpu.percent": 0.3}
    assert expected == pytest.approx(dict(monitor.measure()))
    assert {} == monitor.measure()


def test_this_machine_is_measured() -> None:
    """On the real thing: shares between 0 and 1."""
    monitor = CpuMonitor(builders.a_conf())
    while not (measured := dict(monitor.measure())):
        pass
    measured.pop("cpu.frequency", None)
    assert all(0.0 <= share <= 1.0 for share in measured.values())


def test_what_cannot_be_measured_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A monitor that fails, or measures what is no number, costs its own metrics only."""
    collected = Monitors([Broken(), Fixed(good=1, bad=float("nan")), Fixed(text="x")], FakeClock()).collect()
    assert [("good", 1.0, "Fixed")] == [(each["name"], each["value"], each["source"]) for each in collected]
    assert 3 == len(builders.lines(caplog, logging.WARNING))


@pytest.mark.parametrize("name", ["nosuch", "no.such.monitor", "compute_agent.node.host.Host"])
def test_a_monitor_that_cannot_be_found_is_named(name: str) -> None:
    """The agent does not start."""
    with pytest.raises(errors.ClassNotFound, match="Option compute_monitors names class") as wrong:
        Monitors.from_conf(builders.a_conf(compute_monitors=[name]))
    assert name in wrong.value.message


def test_monitors_are_found_by_name_or_path() -> None:
    """Ours by its short name."""
    found = Monitors.from_conf(builders.a_conf(compute_monitors=["cpu", "compute_agent.monitors.cpu.CpuMonitor"]))
    assert [CpuMonitor, CpuMonitor] == [type(each) for each in found.monitors]
    assert {"cpu", "pressure"} == monitors.BUILT_IN.keys()


def test_metrics_are_reported_and_announced() -> None:
    """Each report has the metrics; without monitors there are none."""
    notifier = Notifier()
    stand = builders.a_stand()
    stand.reporter._notifications = Notifications(notifier)  # type: ignore[arg-type]
    stand.reporter.report()
    assert ([], []) == (notifier.sent, stand.conductor.reports[HOST, HOST].metrics)
    stand.reporter._monitors = Monitors([Fixed(load=0.5)], FakeClock())
    stand.reporter.report()
    (metric,) = stand.conductor.reports[HOST, HOST].metrics
    assert ("load", 0.5) == (metric["name"], metric["value"])
    ((level, publisher, event, said),) = notifier.sent
    assert ("INFO", f"compute.{HOST}", "compute.metrics.update") == (level, publisher, event)
    assert {"metrics": [metric], "host": HOST, "nodename": HOST, "host_ip": "127.0.0.1"} == said
