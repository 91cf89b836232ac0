# SPDX-License-Identifier: Apache-2.0
"""Monitors measure the host; the values reach the ledger and the notifications."""

from __future__ import annotations

import collections
import logging
from typing import Any

import pytest

from compute_agent import monitors
from compute_agent.drivers.base import ComputeDriver, GuestUse
from compute_agent.drivers.fake import FakeDriver
from compute_agent.drivers.fake_hardware import guest_loads
from compute_agent.drivers.libvirt.domains import usage
from compute_agent.ledger.notifications import Notifications
from compute_agent.monitors import Monitors
from compute_agent.monitors.base import Monitor
from compute_agent.monitors.cpu import CpuMonitor
from compute_agent.node.guest_loads import GuestLoads
from fleet import errors
from tests.clock import FakeClock
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST, Notifier
from tests.worlds.one_host import one_host

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


@pytest.mark.parametrize("failure", [NotImplementedError("can't find current frequency file"), OSError("no such file")])
def test_a_machine_that_does_not_show_its_frequency(failure: Exception) -> None:
    """psutil raises on some virtual machines. The shares are measured all the same."""
    times = iter([Times(10, 10, 100, 0, 5), Times(30, 20, 160, 10, 25)])

    def fail() -> None:
        raise failure

    monitor = CpuMonitor(builders.a_conf(), lambda: next(times), fail)
    found = monitor.measure()
    assert (pytest.approx(0.3), False) == (found["cpu.percent"], "cpu.frequency" in found)


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
    assert {"cpu", "guests", "pressure"} == monitors.BUILT_IN.keys()
    assert not found.of_guests
    assert Monitors.from_conf(builders.a_conf(compute_monitors=["cpu", "guests"])).of_guests


def test_metrics_are_reported_and_announced() -> None:
    """Each report has the metrics; without monitors there are none."""
    notifier = Notifier()
    world = one_host()
    world.reporter._notifications = Notifications(notifier)  # type: ignore[arg-type]
    world.reporter.report()
    assert ([], []) == (notifier.sent, world.conductor.reports[HOST, HOST].metrics)
    world.reporter._monitors = Monitors([Fixed(load=0.5)], FakeClock())
    world.reporter.report()
    (metric,) = world.conductor.reports[HOST, HOST].metrics
    assert ("load", 0.5) == (metric["name"], metric["value"])
    ((level, publisher, event, said),) = notifier.sent
    assert ("INFO", f"compute.{HOST}", "compute.metrics.update") == (level, publisher, event)
    assert {"metrics": [metric], "host": HOST, "nodename": HOST, "host_ip": "127.0.0.1"} == said


class Uses(ComputeDriver):
    """Has used what a test says."""

    def __init__(self, *samples: dict[str, GuestUse] | Exception) -> None:
        self._samples = list(samples)

    def get_guest_uses(self) -> dict[str, GuestUse]:
        found = self._samples.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_loads_of_guests(caplog: pytest.LogCaptureFixture) -> None:
    """They are of the time since the last sample. A guest that is new, or has booted again, has none; nor has any if the
    driver fails.
    """
    second = 10**9
    driver = Uses(
        {"a": GuestUse(0), "b": GuestUse(60 * second)},
        {"a": GuestUse(30 * second, 512), "b": GuestUse(second), "c": GuestUse(second)},
        OSError("away"),
        {"a": GuestUse(210 * second), "b": GuestUse(61 * second), "c": GuestUse(second)},
    )
    clock = iter((0.0, 60.0, 90.0, 120.0))
    loads = GuestLoads(driver, lambda: next(clock))
    assert [
        {},
        {"a": {"cores": 0.5, "lasting": 0.5, "memory_mb": 512.0}},
        {},
        # A minute weighs 1 - exp(-60/480) beside what was before: 0.5 + 0.1175 * 2.5.
        {
            "a": {"cores": 3.0, "lasting": 0.794},
            "b": {"cores": 1.0, "lasting": 1.0},
            "c": {"cores": 0.0, "lasting": 0.0},
        },
    ] == [loads.sample() for _number in range(4)]
    assert 1 == len(builders.lines(caplog, logging.WARNING))


def test_loads_of_guests_are_reported() -> None:
    """A simulated guest is as busy as its name says; one that is off is not measured."""
    clock = FakeClock()
    conf = builders.a_conf(compute_monitors=["guests"])
    conf.set_override("guest_loads", ["busy*:0.5"], group="fake")
    driver = FakeDriver(conf, clock=lambda: clock().timestamp())
    driver.init_host(HOST)
    guests = [
        builders.an_instance(name=name, node=HOST, flavor=builders.a_flavor(vcpus=4))
        for name in ("busy-1", "idle", "busy-2")
    ]
    for each in guests:
        driver.spawn(builders.a_context(), each, each.image)
    loads = GuestLoads(driver, lambda: clock().timestamp())
    assert {} == loads.sample()
    clock.advance(60)
    driver.power_off(builders.a_context(), guests[2])
    measured = {uuid: each["cores"] for uuid, each in loads.sample().items()}
    assert {guests[0].uuid: 2.0, guests[1].uuid: 0.0} == measured
    world = one_host(driver=driver)
    world.reporter._monitors = Monitors.from_conf(conf)
    world.reporter._loads = {HOST: loads}
    clock.advance(60)
    world.reporter.report()
    found = world.conductor.reports[HOST, HOST].guest_loads
    assert {guests[0].uuid: 2.0, guests[1].uuid: 0.0} == {uuid: each.cores for uuid, each in found.items()}


@pytest.mark.parametrize("option", ["busy", "busy:", ":0.5", "busy:2", "busy:-1", "busy:nan"])
def test_an_option_that_is_no_load(option: str) -> None:
    with pytest.raises(errors.ConfigError, match="PATTERN:SHARE"):
        guest_loads([option])


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ({}, None),
        ({"balloon.rss": 3 * 1024}, 3),
        ({"balloon.rss": 3 * 1024, "balloon.available": 8 * 1024, "balloon.usable": 6 * 1024}, 2),
        ({"balloon.available": 1024, "balloon.usable": 2048}, 0),
    ],
)
def test_the_memory_of_a_guest(stats: dict[str, int], expected: int | None) -> None:
    """What the guest counts itself is nearer to what it needs than what its process occupies."""
    assert expected == usage.memory_mb(stats)
