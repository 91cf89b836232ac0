# SPDX-License-Identifier: Apache-2.0
"""An agent does not report again what the conductor has stored."""

from __future__ import annotations

import dataclasses

import oslo_messaging

from compute_agent.ledger.last_report import LastReports
from compute_agent.ledger.reporter import Reporter
from fleet.agent.patience import Patience
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST
from tests.worlds.one_host import OneHost, one_host


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def reporting(world: OneHost, clock: Clock) -> Reporter:
    return Reporter(
        world.conductor,
        Patience(world.stopping, builders.SteppingClock()),
        [world.host],
        builders.INCARNATION,
        last_told=LastReports(300, clock),
    )


def sent(world: OneHost) -> int:
    return world.conductor.calls.count("report_hosts")


def test_what_has_not_changed_is_told_again_after_a_while():
    """Not with each audit; but the database may have lost it."""
    world, clock = one_host(), Clock()
    reporter = reporting(world, clock)
    found = []
    for clock.now in (0, 60, 299, 301, 400, 601):
        reporter.report()
        found.append(sent(world))
    assert [1, 1, 1, 2, 2, 3] == found


def test_what_has_changed_is_told_at_once():
    """And once only."""
    world = one_host()
    reporter = reporting(world, Clock())
    reports = reporter.audit()
    changed = [dataclasses.replace(report, vcpus=report.vcpus + 1) for report in reports]
    for each in (reports, changed, changed):
        reporter.send(each)
    assert 2 == sent(world)


def test_what_was_not_answered_or_was_refused_is_told_again():
    """Only reports that the conductor has accepted count as sent."""
    world = one_host()
    reporter = reporting(world, Clock())
    world.conductor.script("report_hosts", oslo_messaging.MessagingTimeout("silence"))
    reporter.report()
    world.conductor.refused_nodes[HOST] = "it shrank"
    reporter.report()
    reporter.report()
    assert 3 == sent(world)


def test_a_host_with_an_alarm_is_told_of_anew():
    """A report of another process may have raised the alarm; the host reports at once, so that the alarm ends."""
    world = one_host()
    reporter = reporting(world, Clock())
    reporter.report()
    world.conductor.alarmed = [HOST]
    reporter.heartbeat()
    reporter.report()
    world.conductor.alarmed = []
    reporter.heartbeat()
    reporter.report()
    assert 2 == sent(world)


def test_a_new_registration_tells_everything():
    """The record may be a new one."""
    world = one_host()
    reporter = reporting(world, Clock())
    reporter.report()
    reporter.register()
    reporter.report()
    assert 2 == sent(world)
