# SPDX-License-Identifier: Apache-2.0
"""Every fault has a code out of the closed set."""

from __future__ import annotations

import oslo_messaging
import pytest

from conductor_stub.steps import faults
from fleet import errors


@pytest.mark.parametrize(
    ("name", "error", "code"),
    [
        ("a full scheduler", errors.NoValidHost(reason="Full.", details={"reason_code": "NEVER_FITS"}), "NEVER_FITS"),
        ("a scheduler that says no code", errors.NoValidHost(reason="Full."), "CAPACITY"),
        ("a bad request", errors.InvalidInput(field="x", reason="y"), "MISCONFIGURED"),
        ("a plugin", errors.PluginFailed(kind="Filter", plugin="X", problem="raised KeyError"), "MISCONFIGURED"),
        ("a blind scheduler", errors.StaleState(problem="x", age="75 s old"), "STALE_STATE"),
        ("a dead agent", errors.ServiceDown(binary="b", host="h", reason="r"), "HOSTS_DOWN"),
        ("lost before a claim", faults.BuildTimeout(timeout_s="9", step="placing", place="no host"), "MESSAGING"),
        ("lost by a host", faults.BuildTimeout(timeout_s="9", step="spawning", place="host h"), "HOSTS_DOWN"),
        ("no answer", oslo_messaging.MessagingTimeout(), "MESSAGING"),
        ("a bug", KeyError("x"), "INTERNAL"),
    ],
)
def test_every_fault_has_a_code(name: str, error: Exception, code: str) -> None:
    """Whatever ended the build."""
    assert faults.describe(error)[3]["reason_code"] == code, name


@pytest.mark.parametrize(
    ("results", "code"),
    [
        (["ComputeResourcesUnavailable"] * 3, "RACE_LOST"),
        (["ServiceDown", "ServiceDown", "ComputeResourcesUnavailable"], "HOSTS_DOWN"),
        (["SpawnFailed"], "INTERNAL"),
        (["ComputeResourcesUnavailable", "ServiceDown"], "HOSTS_DOWN"),
    ],
)
def test_the_code_of_attempts_in_vain(results: list[str], code: str) -> None:
    """What most attempts met, and of equals what was met last."""
    lost = {"host": "h", "reason": "r", "step": None, "duration_s": None}
    tried = [{**lost, "attempt": number, "result": result} for number, result in enumerate(results)]
    assert faults.describe(faults.retries_exceeded("u", tried))[3]["reason_code"] == code


PLACES = [
    ("two hosts", [("h1", "h1"), ("h2", "h2")], "was tried on 2 hosts: "),
    ("two nodes of one host", [("h1", "n1"), ("h1", "n2")], "was tried on 1 host (2 nodes): attempt 0 on h1:n1: "),
    ("one node again", [("h1", "h1"), ("h1", "h1")], "was tried 2 times on 1 host: "),
    ("one host", [("h1", None)], "was tried on 1 host: attempt 0 on h1: "),
]


@pytest.mark.parametrize(("name", "places", "said"), PLACES, ids=[case[0] for case in PLACES])
def test_hosts_are_counted_and_not_nodes(name: str, places: list[tuple[str, str | None]], said: str) -> None:
    """The sentence counts hosts; nodes and attempts are counted where they are more."""
    lost = {"reason": "r", "step": None, "duration_s": None, "result": "SpawnFailed"}
    tried = [{**lost, "attempt": number, "host": host, "node": node} for number, (host, node) in enumerate(places)]
    assert said in faults.retries_exceeded("u", tried).message


@pytest.mark.parametrize(
    ("refused", "code", "said"),
    [
        pytest.param("RACE_LOST", "HOSTS_DOWN", True, id="all hosts were tried"),
        pytest.param("CAPACITY", "CAPACITY", False, id="the others are full"),
    ],
)
def test_a_refusal_says_what_became_of_the_hosts_that_were_tried(refused: str, code: str, said: bool) -> None:
    """The scheduler knows only that they were."""
    refusal = errors.NoValidHost(reason="All were tried.", details={"reason_code": refused, "considered": 1})
    lost = {"host": "h1", "reason": "host h1 stopped sending heartbeats", "step": "spawning", "duration_s": None}
    explained = faults.beside(refusal, [{**lost, "attempt": 1, "result": "AttemptLost"}])
    told = " Tried: attempt 1 on h1 in step spawning: host h1 stopped sending heartbeats."
    assert ("All were tried." + told * said, code, 1) == (
        explained.reason,
        explained.details["reason_code"],
        explained.details["considered"],
    )
