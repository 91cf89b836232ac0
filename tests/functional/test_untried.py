# SPDX-License-Identifier: Apache-2.0
"""Orders that come to nothing before a host has tried them, and refusals that are not the scheduler's last word."""

from __future__ import annotations

import oslo_messaging
import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.objects import Place
from tests.worlds.conductor import Conductor, context
from tests.worlds.neighbours import no_valid_host

FULL = Failure(step="claim", code="ComputeResourcesUnavailable", message="Free memory 1 MB", duration_s=0.5)
STOPPED = Failure(step="queue", code="AgentStopping", message="The agent of h1 stopped")


@pytest.fixture
def conductor(database: Database) -> Conductor:
    return with_hosts(Conductor(database, StepLimits(claim_refusals=2)))


def with_hosts(conductor: Conductor) -> Conductor:
    conductor.add_hosts(["h1", "h2", "h3"])
    return conductor


def say(conductor: Conductor, uuid: str, host: str, failure: Failure, *others: str, attempt: int = 1) -> None:
    places = [Place(other, other, {}) for other in others]
    conductor.placement.reschedule(context(), Attempt(uuid, attempt, host, host), failure, places)


def wait(conductor: Conductor, intervals: int = 1) -> None:
    """Until the sweeper has handed out what is due, and a worker has taken it up."""
    conductor.clock.advance(intervals * conductor.limits.retry_interval_s)
    conductor.sweeper.retry_lost()
    conductor.work()


def sent_to(conductor: Conductor) -> list[tuple[str, int]]:
    return [(host, build["attempt"]) for host, build in conductor.compute.builds]


def events(conductor: Conductor, uuid: str) -> list[tuple[str, str | None, str | None]]:
    return [(each["event"], each["host"], each["step"]) for each in conductor.operator.show_instance(uuid)["events"]]


def hosts_down(silent: int) -> errors.NoValidHost:
    details = {"reason_code": "HOSTS_DOWN", "considered": 3, "filters": [], "silent": silent}
    return errors.NoValidHost(reason="3 of 3 hosts are disabled or down.", details=details)


NOBODY = [
    ("a scheduler of another ledger", errors.ForeignLedger(ours="o", theirs="t", service="scheduler")),
    ("no host is known", errors.NoValidHost(reason="None.", details={"reason_code": "HOSTS_DOWN", "considered": 0})),
]


@pytest.mark.parametrize(("what", "answer"), NOBODY, ids=[case[0] for case in NOBODY])
def test_an_answer_that_knows_no_host_is_not_final(conductor: Conductor, what: str, answer: Exception) -> None:
    """The scheduler is called again until the deadline, far longer than for silent hosts."""
    conductor.scheduler.answers.append(answer)
    (uuid,) = conductor.create()
    conductor.work()
    for _again in range(50):
        conductor.scheduler.answers.append(answer)
        wait(conductor, intervals=2)
    assert ("building", "scheduling", 1, None) == conductor.state(uuid)
    conductor.scheduler.answers.append([("h3", ())])
    wait(conductor, intervals=2)
    assert [("h3", 1)] == sent_to(conductor)


def test_a_build_that_a_stopping_agent_has_not_begun_spends_no_attempt(conductor: Conductor) -> None:
    """Each time it waits for the scheduler at the same attempt; a late report about it is ignored."""
    uuid = conductor.place("h1", "h2")
    for host in ("h1", "h3", "h3", "h3"):
        for _twice in range(2):
            say(conductor, uuid, host, STOPPED, "h2")
        assert ("building", "scheduling", 1, None) == conductor.state(uuid)
        conductor.scheduler.answers.append([("h3", ())])
        conductor.work()
    conductor.claim(uuid, "h3")
    say(conductor, uuid, "h1", STOPPED, "h2")
    assert ("building", "spawning", 1, "h3") == conductor.state(uuid)
    assert ["create", *["hand-back"] * 4, "claim"] == [event for event, _host, _step in events(conductor, uuid)]


def test_a_host_without_a_queue_is_passed_over_at_once(conductor: Conductor) -> None:
    """The next alternate gets the order, at the same attempt: nothing was tried on the host."""
    conductor.compute.without_queue.add("h1")
    uuid = conductor.place("h1", "h2")

    assert [("h2", 1)] == sent_to(conductor)
    assert ("building", "placing", 1, None) == conductor.state(uuid)
    assert [("create", None, None), ("hand-back", "h1", "cast")] == events(conductor, uuid)


def test_when_no_host_has_a_queue_the_scheduler_is_asked_again_in_a_while(conductor: Conductor) -> None:
    """As often as the deadline allows, and each time for other hosts; one that was left alone has its turn again."""
    conductor.compute.without_queue.update(["h1", "h2", "h3"])
    uuid = conductor.place("h1", "h2")
    assert 0 == conductor.work()
    conductor.scheduler.answers.append([("h3", ())])
    wait(conductor)
    assert ("building", "scheduling", 1, None) == conductor.state(uuid)

    conductor.compute.without_queue.clear()
    conductor.scheduler.answers.append([("h1", ())])
    wait(conductor, intervals=3)

    asked = [properties.get("ignore_hosts", []) for _spec, properties in conductor.scheduler.requests]
    assert [[], ["h1", "h2"], ["h3"]] == asked
    assert [("h1", 1)] == sent_to(conductor)


def test_a_forced_host_without_a_queue_is_waited_for(conductor: Conductor) -> None:
    """The request forces one host, so the build waits for it and no attempt is counted."""
    conductor.compute.without_queue.add("h1")
    uuid = conductor.place("h1", availability_zone="nova:h1")
    conductor.compute.without_queue.clear()
    conductor.scheduler.answers.append([("h1", ())])
    wait(conductor)

    assert [("h1", 1)] == sent_to(conductor)
    assert ("building", "placing", 1, None) == conductor.state(uuid)


def test_refused_claims_spend_no_attempt_up_to_a_bound(conductor: Conductor) -> None:
    """Refused claims spend no attempt until the third; from then on each spends one."""
    uuid = conductor.place("h1", "h2")
    say(conductor, uuid, "h1", FULL, "h2")
    conductor.scheduler.answers.append([("h3", ["h1"])])
    say(conductor, uuid, "h2", FULL)
    conductor.work()
    assert ("building", "placing", 1, None) == conductor.state(uuid)
    conductor.clock.advance(conductor.limits.retry_interval_s)
    say(conductor, uuid, "h3", FULL, "h1")

    assert [("h1", 1), ("h2", 1), ("h3", 1), ("h1", 2)] == sent_to(conductor)
    steps = [("hand-back", "h1", "claim"), ("hand-back", "h2", "claim"), ("attempt", "h3", "claim")]
    assert [("create", None, None), *steps] == events(conductor, uuid)


def test_a_refused_claim_that_is_said_twice_counts_once(conductor: Conductor) -> None:
    """At the second report the build is on its way to another host, and stays so."""
    uuid = conductor.place("h1", "h2", "h3")
    for _copy in range(50):
        say(conductor, uuid, "h1", FULL, "h2", "h3")

    assert [("h1", 1), ("h2", 1)] == sent_to(conductor)
    conductor.claim(uuid, "h2")
    assert ("building", "spawning", 1, "h2") == conductor.state(uuid)


def test_who_has_lost_all_races_is_told_what_is_true_in_the_end(conductor: Conductor) -> None:
    """That no host is left beside those which have just refused proves nothing: all are looked at again."""
    uuid = conductor.place("h1")
    conductor.scheduler.answers.extend([no_valid_host(), no_valid_host()])
    say(conductor, uuid, "h1", FULL)
    conductor.work()
    assert ("building", "scheduling", 1, None) == conductor.state(uuid)
    wait(conductor)

    assert [None, ["h1"], None] == [asked.get("ignore_hosts") for _spec, asked in conductor.scheduler.requests]
    assert ("error", None, 1, None) == conductor.state(uuid)
    (fault,) = conductor.faults(uuid)
    assert "CAPACITY" == fault["details"]["reason_code"]
    assert [("h1", "claim", "Free memory 1 MB")] == [
        (each["host"], each["step"], each["reason"]) for each in fault["details"]["untried"]
    ]


def not_answered(conductor: Conductor) -> None:
    """The scheduler's answer comes after the conductor has given up."""
    conductor.scheduler.answers.append(oslo_messaging.MessagingTimeout())
    conductor.work()


def lost_with_its_conductor(conductor: Conductor) -> None:
    """The scheduler receives the request; the conductor dies before the answer."""
    conductor.scheduler.answers.append([("h1", ())])
    conductor.work()
    conductor.clock.advance(conductor.limits.placing_timeout_s)
    conductor.sweeper.retry_lost()


def never_arrived(conductor: Conductor) -> None:
    """The chosen agent has no queue."""
    conductor.compute.without_queue.add("h1")
    conductor.scheduler.answers.append([("h1", ())])
    conductor.work()


@pytest.mark.parametrize("lose", [not_answered, lost_with_its_conductor, never_arrived])
def test_schedulers_are_told_of_a_build_that_waits_again(conductor: Conductor, lose) -> None:
    """Any of them may have booked room for it; what the feed shows on no host is booked no longer."""
    scheduler = ChangeFeed(conductor.database)
    (uuid,) = conductor.create()
    known = scheduler.read(0).generation
    lose(conductor)
    assert [(uuid, None)] == [(row.uuid, row.host) for row in scheduler.read(known).instances]


def test_silent_hosts_are_waited_for(conductor: Conductor) -> None:
    """After an outage all hosts look down until their heartbeats arrive. The wait is one line in the instance's events."""
    conductor.scheduler.answers.extend([hosts_down(3)] * 3)
    (uuid,) = conductor.create()
    conductor.work()
    wait(conductor)
    wait(conductor)
    assert ("building", "scheduling", 1, None) == conductor.state(uuid)
    assert [("create", None, None), ("schedule", None, None)] == events(conductor, uuid)

    conductor.scheduler.answers.append([("h1", ())])
    wait(conductor)
    assert [("h1", 1)] == sent_to(conductor)


def test_silent_hosts_are_not_waited_for_without_end(conductor: Conductor) -> None:
    """After hosts_down_retry_time the build is in ERROR with the scheduler's reason, long before its deadline."""
    conductor.scheduler.answers.extend([hosts_down(3)] * 2)
    (uuid,) = conductor.create()
    conductor.work()
    conductor.clock.advance(conductor.limits.hosts_down_retry_time_s)
    conductor.sweeper.retry_lost()
    conductor.work()

    assert ("error", None, 1, None) == conductor.state(uuid)
    assert "HOSTS_DOWN" == conductor.faults(uuid)[0]["details"]["reason_code"]


def test_disabled_hosts_are_not_waited_for(conductor: Conductor) -> None:
    """An operator has decided so: ERROR at once."""
    conductor.scheduler.answers.append(hosts_down(0))
    (uuid,) = conductor.create()
    conductor.work()

    assert ("error", None, 1, None) == conductor.state(uuid)
