# SPDX-License-Identifier: Apache-2.0
"""What becomes of a build in the ledger for everything that may go wrong with it.

The host's side of the same tables is ``tests/unit/compute_agent/test_results.py``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import oslo_messaging
import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.db.engine.database import Database
from fleet.objects import Place
from tests.worlds.conductor import Conductor, context
from tests.worlds.neighbours import no_valid_host

FULL = Failure(step="claim", code="ComputeResourcesUnavailable", message="Free memory 0.00 MB < requested 1024 MB")
VIOLATED = Failure(step="claim", code="GroupAffinityViolation", message="Group policy anti-affinity is violated")
UNKNOWN_NODE = Failure(step="claim", code="NotFound", message="Node elsewhere could not be found.")
SPAWN = Failure(step="spawn", code="SpawnFailed", message="The driver said no", duration_s=0.5)
BUG = Failure(step="spawn", code="RuntimeError", message="oops", duration_s=0.5)
HANGS = Failure(step="spawn", code="SpawnTimeout", message="The driver of h1 did not end the spawn", duration_s=540.0)
RESTARTED = Failure(step="agent-restart", code="AgentRestarted", message="The agent of h1 was restarted")
NOT_BEGUN = Failure(step="queue", code="AgentStopping", message="The agent of h1 stopped before it began the build")
BROKEN = Failure(step="spawn", code="BuildAbort", message="Build of instance u aborted: the image is broken")
DIRTY = Failure(step="spawn", code="BuildAbort", message="Build of instance u aborted: clean-up on h1 failed")

SCHEDULING, PLACING = ("building", "scheduling"), ("building", "placing")
SPAWNING, DELETING, ERROR = ("building", "spawning"), ("building", "deleting"), ("error", None)


@dataclasses.dataclass(frozen=True)
class Case:
    """A build on its way to h1, or (``claimed``) claimed there; h1's ``failure``; and the expected result."""

    what: str
    failure: Failure
    state: tuple[str, str | None]
    attempt: int = 1
    claimed: bool = True
    final: bool = False
    alternate: bool = False
    max_attempts: int = 3
    forced: bool = False
    #: attempt that the host speaks of
    of_attempt: int = 1
    deleted_before: bool = False
    event: tuple[str, str] | None = None
    fault: str | None = None
    said: str = ""


ATTEMPT, HAND_BACK = "attempt", "hand-back"
CASES = [
    # RescheduledException, retry present: the next host, or the scheduler again
    Case("spawn failed, an alternate is left", SPAWN, PLACING, 2, alternate=True, event=(ATTEMPT, "SpawnFailed")),
    Case("spawn failed, no alternate is left", SPAWN, SCHEDULING, 2, event=(ATTEMPT, "SpawnFailed")),
    Case("the driver has a bug", BUG, SCHEDULING, 2, event=(ATTEMPT, "RuntimeError")),
    Case("the driver hangs", HANGS, SCHEDULING, 2, event=(ATTEMPT, "SpawnTimeout")),
    Case("the agent was restarted", RESTARTED, SCHEDULING, 2, event=(ATTEMPT, "AgentRestarted")),
    Case("the node is unknown", UNKNOWN_NODE, SCHEDULING, 2, claimed=False, event=(ATTEMPT, "NotFound")),
    # ComputeResourcesUnavailable and group policy: a race lost is no attempt of the build's
    Case("the claim is refused, an alternate is left", FULL, PLACING, claimed=False, alternate=True,
         event=(HAND_BACK, "ComputeResourcesUnavailable")),
    Case("the claim is refused, no alternate is left", FULL, SCHEDULING, claimed=False,
         event=(HAND_BACK, "ComputeResourcesUnavailable")),
    Case("the group forbids it", VIOLATED, SCHEDULING, claimed=False, event=(HAND_BACK, "GroupAffinityViolation")),
    Case("the host has not begun it", NOT_BEGUN, SCHEDULING, claimed=False, event=(HAND_BACK, "AgentStopping")),
    # MaxRetriesExceeded
    Case("spawn failed at the last attempt", SPAWN, ERROR, 2, max_attempts=2, of_attempt=2,
         event=(ATTEMPT, "SpawnFailed"), fault="MaxRetriesExceeded",
         said="attempt 2 on h1 in step spawn after 0.5 s: The driver said no"),
    # RescheduledException, no retry
    Case("spawn failed, one attempt is allowed", SPAWN, ERROR, max_attempts=1, event=(ATTEMPT, "SpawnFailed"),
         fault="MaxRetriesExceeded", said="The driver said no; no other host is tried, as"),
    Case("spawn failed on a forced host", SPAWN, ERROR, forced=True, event=(ATTEMPT, "SpawnFailed"),
         fault="MaxRetriesExceeded", said="The driver said no; no other host is tried, as"),
    Case("the claim is refused on a forced host", FULL, ERROR, claimed=False, forced=True,
         event=(ATTEMPT, "ComputeResourcesUnavailable"), fault="MaxRetriesExceeded", said="Free memory 0.00 MB"),
    # BuildAbortException
    Case("no host can build it", BROKEN, ERROR, final=True, alternate=True, event=(ATTEMPT, "BuildAbort"),
         fault="BuildAbort", said="the image is broken"),
    Case("the clean-up failed", DIRTY, ERROR, final=True, event=(ATTEMPT, "BuildAbort"),
         fault="BuildAbort", said="clean-up on h1 failed"),
    # InstanceNotFound, UnexpectedDeletingTaskStateError, UnexpectedTaskStateError: it is not this host's any more
    Case("it is being deleted", SPAWN, DELETING, deleted_before=True),
    Case("it is being deleted, no host can build it", BROKEN, DELETING, final=True, deleted_before=True),
    Case("the host speaks of an earlier attempt", SPAWN, SPAWNING, 2, of_attempt=1, alternate=True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_result_of_an_attempt(database: Database, case: Case) -> None:
    """State, attempt, claims, event and fault follow from the host's report and the state of the build."""
    conductor = Conductor(database, StepLimits(max_attempts=case.max_attempts))
    conductor.add_hosts(["h0", "h1", "h2"])
    uuid = _on_its_way(conductor, case)
    if case.claimed:
        conductor.claim(uuid, "h1", conductor.state(uuid)[2])
    if case.deleted_before:
        conductor.termination.terminate(context(), [uuid])
    before = conductor.state(uuid), conductor.memory_used("h1"), len(conductor.events(uuid))
    others = [Place("h2", "h2", {})] if case.alternate else []
    if case.final:
        conductor.placement.abort(context(), Attempt(uuid, case.of_attempt, "h1", "h1"), case.failure)
    else:
        conductor.placement.reschedule(context(), Attempt(uuid, case.of_attempt, "h1", "h1"), case.failure, others)

    if case.event is None:
        assert before == (conductor.state(uuid), conductor.memory_used("h1"), len(conductor.events(uuid)))
    else:
        assert (*case.state, case.attempt, None) == conductor.state(uuid)
        assert 0 == conductor.memory_used("h1")
        *_, last = [each for each in conductor.events(uuid) if each["event"] in (ATTEMPT, HAND_BACK)]
        assert (*case.event, "h1", case.failure.step) == (last["event"], last["result"], last["host"], last["step"])
    assert case.state == conductor.state(uuid)[:2]
    faults = conductor.faults(uuid)
    assert ([case.fault] if case.fault else []) == [fault["error"] for fault in faults]
    assert all(case.said in fault["message"] for fault in faults)
    sent = [host for host, build in conductor.compute.builds if build["instance"]["uuid"] == uuid]
    assert ("h2" == sent[-1]) == (case.state == PLACING)


def _on_its_way(conductor: Conductor, case: Case) -> str:
    """To h1, at the attempt that the case ends with if that is not the first one of the story."""
    hints: dict[str, Any] = {"availability_zone": ":h1"} if case.forced else {}
    if case.max_attempts == 2 or case.state == SPAWNING:
        uuid = conductor.place("h0", "h1")
        conductor.placement.reschedule(context(), Attempt(uuid, 1, "h0", "h0"), SPAWN, [Place("h1", "h1", {})])
        return uuid
    return conductor.place("h1", *(["h2"] if case.alternate else []), **hints)


NO_METRIC = errors.MetricNotFound(name="cpu.percent", host="h1", node="h1")
NOT_NOW = (*SCHEDULING, 1, None)
ENDED = (*ERROR, 1, None)
#: what, the scheduler's answer, state of every instance, error and code of its fault
ANSWERS: list[tuple[str, Exception, tuple[str, str | None, int, str | None], tuple[str, int] | None]] = [
    ("no valid host", no_valid_host(), ENDED, ("NoValidHost", 500)),
    ("the request is wrong", errors.InvalidInput(field="image", reason="is odd"), ENDED, ("InvalidInput", 400)),
    ("a metric is missing", NO_METRIC, ENDED, ("MetricNotFound", 404)),
    (
        "a filter has failed",
        errors.PluginFailed(kind="Filter", plugin="F", problem="oops"),
        ENDED,
        ("PluginFailed", 500),
    ),
    ("a bug", RuntimeError("oops"), ENDED, ("RuntimeError", 500)),
    ("it was taken up too late", errors.RequestExpired(late_s="5.0"), NOT_NOW, None),
    ("no answer", oslo_messaging.MessagingTimeout(), NOT_NOW, None),
    ("it has no fresh state", errors.StaleState(age="99 s old", problem="away"), NOT_NOW, None),
]


@pytest.mark.parametrize(("what", "answer", "state", "fault"), ANSWERS, ids=[case[0] for case in ANSWERS])
def test_result_of_asking_the_scheduler(
    database: Database, what: str, answer: Exception, state: tuple[str, str | None, int, str | None], fault: Any
) -> None:
    """Every instance of the request ends alike, each with its fault and its notification; or all wait for another try."""
    conductor = Conductor(database)
    conductor.scheduler.answers.append(answer)
    uuids = conductor.create(count=2)
    conductor.work()

    assert [state, state] == [conductor.state(uuid) for uuid in uuids]
    expected = [fault] if fault else []
    assert [expected, expected] == [
        [(each["error"], each["code"]) for each in conductor.faults(uuid)] for uuid in uuids
    ]
    said = ["compute_task.build_instances"] * 2 if fault else []
    assert said == [event for event, _payload in conductor.notifier.errors]


def test_a_request_may_ask_for_one_attempt(database: Database) -> None:
    """Its first failure is the last, though the configuration allows more; no retry entry is sent to the scheduler."""
    conductor = Conductor(database, StepLimits(max_attempts=3))
    conductor.add_hosts(["h1", "h2"])
    uuid = conductor.place("h1", "h2", max_attempts=1)
    conductor.claim(uuid, "h1")
    counted = conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), SPAWN, [Place("h2", "h2", {})])
    assert counted
    assert (*ERROR, 1, None) == conductor.state(uuid)
    (fault,) = conductor.faults(uuid)
    assert "MaxRetriesExceeded" == fault["error"]
    assert "was tried on 1 host" in fault["message"]
    assert "one attempt is allowed" in fault["message"]


def test_a_refused_claim_does_not_count(database: Database) -> None:
    """The agent learns whether the attempt that it gives back was spent."""
    conductor = Conductor(database)
    conductor.add_hosts(["h1", "h2"])
    uuid = conductor.place("h1", "h2")
    assert not conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), FULL, [Place("h2", "h2", {})])
    assert (*PLACING, 1, None) == conductor.state(uuid)


def test_the_notification_of_a_failed_build_has_the_whole_request(database: Database) -> None:
    """``compute_task.build_instances`` carries the request spec and all instance properties, as nova's does."""
    conductor = Conductor(database)
    conductor.scheduler.answers.append(errors.NoValidHost(reason="no", details={}))
    (uuid,) = conductor.create()
    conductor.work()
    ((event, payload),) = conductor.notifier.errors
    assert "compute_task.build_instances" == event
    assert uuid == payload["request_spec"]["instance_properties"]["uuid"] == payload["instance_properties"]["uuid"]
    assert 1024 == payload["instance_properties"]["memory_mb"] == payload["request_spec"]["instance_type"]["memory_mb"]


def test_a_forced_host_is_named(database: Database) -> None:
    """In what is shown of the instance, and in the reason for its end."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    uuid = conductor.place("h1", availability_zone="nova:h1")
    shown = conductor.operator.show_instance(uuid)["instance"]
    assert ("h1", None) == (shown["forced_host"], shown["forced_node"])
    conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), FULL, [])
    (fault,) = conductor.faults(uuid)
    assert "no other host is tried, as the request forces host h1" in fault["message"]
