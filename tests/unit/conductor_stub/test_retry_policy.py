# SPDX-License-Identifier: Apache-2.0
"""Which hosts a build avoids, and when a refusal is the last word."""

from __future__ import annotations

import datetime
import types

import pytest

from conductor_stub.builds.retry_policy import ask_again_at, needed
from conductor_stub.steps.avoidance import Avoidance
from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.clock import seconds

NOW = datetime.datetime(2026, 3, 1, 12)
LIMITS = StepLimits(retry_interval_s=3, hosts_down_retry_time_s=120)


def event(host: str, step: str, ago_s: float, kind: str = "hand-back") -> types.SimpleNamespace:
    return types.SimpleNamespace(event=kind, host=host, node=host, step=step, created_at=NOW - seconds(ago_s))


AVOIDED = [
    ("nothing was in vain", [], [], [], None),
    ("it was tried there, long ago", [event("a", "spawn", 500, "attempt")], ["a"], [], None),
    ("its agent has stopped: it is disabled", [event("a", "queue", 0)], [], [], None),
    ("its claim was refused a second ago: 3 - 1", [event("a", "claim", 1)], [], ["a"], 2),
    ("its claim was refused three seconds ago", [event("a", "claim", 3)], [], [], None),
    ("its agent had no queue ten seconds ago: 4 x 3 - 10", [event("a", "cast", 10)], [], ["a"], 2),
    ("two of them: until both are free again", [event("a", "claim", 1), event("b", "cast", 1)], [], ["a", "b"], 11),
]


@pytest.mark.parametrize(("why", "vain", "tried", "left_alone", "for_s"), AVOIDED, ids=[case[0] for case in AVOIDED])
def test_which_hosts_are_avoided(why: str, vain: list, tried: list, left_alone: list, for_s: float | None) -> None:
    """Those that have tried it for good, those that have not for a while."""
    until = None if for_s is None else NOW + seconds(for_s)
    expected = Avoidance(tuple((each, each) for each in tried), tuple((each, each) for each in left_alone), until)
    assert expected == Avoidance.of(vain, LIMITS, NOW)


def test_a_request_of_an_earlier_release() -> None:
    """Its names and keys may be refused today. It still says how many builds are placed together."""
    spec = {"flavor": {"vcpus": 1, "memory_mb": 1}, "min_count": 2, "max_count": 3, "metadata": {"../../b": "1"}}
    assert 2 == needed(3, {**spec, "name": "12345678"}, failed=0)


def refusal(code: str, silent: int = 0, considered: int = 9) -> errors.NoValidHost:
    details = {"reason_code": code, "silent": silent, "considered": considered}
    return errors.NoValidHost(reason="No.", details=details)


LAST = [
    ("all are full", refusal("CAPACITY"), None, None, 600, None),
    ("all others than those avoided are full", refusal("CAPACITY"), 2, None, 600, 2),
    ("all are silent", refusal("HOSTS_DOWN", 5), None, None, 600, 3),
    ("no host is known at all", refusal("HOSTS_DOWN", considered=0), None, None, 600, 3),
    ("nor was any for long", refusal("HOSTS_DOWN", considered=0), None, 300, 600, 3),
    ("nor is there time left", refusal("HOSTS_DOWN", considered=0), None, 590, 8, None),
    ("the request excludes all by name", refusal("POLICY", considered=0), None, None, 600, None),
    ("all are disabled", refusal("HOSTS_DOWN"), None, None, 600, None),
    ("most are full, some silent", refusal("CAPACITY", 2), None, None, 600, None),
    ("all are silent, and have been for 117 s", refusal("HOSTS_DOWN", 5), None, 117, 600, 3),
    ("all are silent, and have been for 118 s", refusal("HOSTS_DOWN", 5), None, 118, 600, None),
    ("there is no time for another question: 3 + 2 x 3 > 8", refusal("HOSTS_DOWN", 5), None, None, 8, None),
    ("a filter has failed", errors.PluginFailed(kind="Filter", plugin="X", problem="hung"), 2, None, 600, None),
]


@pytest.mark.parametrize(
    ("why", "said", "avoided_s", "waits_s", "left_s", "expected_s"), LAST, ids=[case[0] for case in LAST]
)
def test_when_the_scheduler_is_asked_again(
    why: str, said: Exception, avoided_s: float | None, waits_s: float | None, left_s: float, expected_s: float | None
) -> None:
    """While hosts are left alone or silent that may take the build later, and while there is time."""
    avoided = None if avoided_s is None else NOW + seconds(avoided_s)
    since = None if waits_s is None else NOW - seconds(waits_s)
    expected = None if expected_s is None else NOW + seconds(expected_s)
    assert expected == ask_again_at(said, avoided, since, NOW + seconds(left_s), LIMITS, NOW)
