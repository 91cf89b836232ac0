# SPDX-License-Identifier: Apache-2.0
"""Terminate at any moment of a build, once or twice."""

from __future__ import annotations

import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.db.hosts.heartbeats import Heartbeat
from tests.worlds.conductor import INCARNATION, Conductor, context


def terminate(conductor: Conductor, uuid: str) -> None:
    conductor.termination.terminate(context(), [uuid])


def build_until(conductor: Conductor, step: str) -> str:
    """One instance, stopped at ``step``."""
    if step == "accepted":
        return conductor.create()[0]
    uuid = conductor.place("h1")
    if step in ("spawning", "active"):
        conductor.claim(uuid, "h1")
    if step == "active":
        conductor.finish(uuid, "h1")
    return uuid


@pytest.mark.parametrize("step", ["accepted", "placing"])
def test_before_a_claim_the_row_goes_at_once(conductor: Conductor, step: str) -> None:
    """No host has a claim, so no host gets an order; a later claim is refused."""
    uuid = build_until(conductor, step)
    terminate(conductor, uuid)
    terminate(conductor, uuid)

    assert conductor.state(uuid)[0] == "deleted"
    assert conductor.compute.terminations == []
    with pytest.raises(errors.StaleBuild):
        conductor.claim(uuid, "h1")
    conductor.work()
    assert conductor.state(uuid)[0] == "deleted"


@pytest.mark.parametrize("step", ["spawning", "active"])
def test_after_a_claim_the_host_destroys_first(conductor: Conductor, step: str) -> None:
    """The conductor orders the host to destroy the guest. The host's report then deletes the row and frees its resources."""
    uuid = build_until(conductor, step)
    terminate(conductor, uuid)
    assert conductor.compute.terminations == [("h1", uuid)]
    assert conductor.memory_used("h1") == 1024

    conductor.agents.destroyed(context(), uuid, "h1")

    assert conductor.state(uuid)[0] == "deleted"
    assert conductor.memory_used("h1") == 0


def test_a_finished_spawn_does_not_save_what_is_being_deleted(conductor: Conductor) -> None:
    """A finish of a build that is marked for deletion is refused as stale."""
    uuid = build_until(conductor, "spawning")
    terminate(conductor, uuid)
    with pytest.raises(errors.StaleBuild):
        conductor.finish(uuid, "h1")


def test_a_failed_spawn_during_deletion_does_not_bring_the_build_back(conductor: Conductor) -> None:
    """A reschedule that arrives after the terminate changes nothing."""
    uuid = build_until(conductor, "spawning")
    terminate(conductor, uuid)
    failure = Failure(step="spawn", code="Boom", message="boom")
    conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), failure, ())
    assert conductor.state(uuid)[1] == "deleting"


def test_a_lost_terminate_is_sent_again(conductor: Conductor) -> None:
    """Until the host answers, the sweeper repeats the cast."""
    uuid = build_until(conductor, "active")
    terminate(conductor, uuid)
    conductor.clock.advance(conductor.limits.retry_interval_s)
    conductor.sweeper.sweep()
    assert conductor.compute.terminations == [("h1", uuid)] * 2


def test_on_a_dead_host_the_ledger_forgets(conductor: Conductor) -> None:
    """A host without a queue and without heartbeats cannot destroy anything: the row goes at once."""
    uuid = build_until(conductor, "active")
    conductor.compute.without_queue.add("h1")
    conductor.clock.advance(conductor.limits.service_down_time_s + 1)
    terminate(conductor, uuid)
    assert conductor.state(uuid)[0] == "deleted"
    assert conductor.memory_used("h1") == 0


def test_on_a_host_that_restarts_the_deletion_waits(conductor: Conductor) -> None:
    """A host with a recent heartbeat has only lost its queue: the deletion waits for it."""
    uuid = build_until(conductor, "active")
    conductor.compute.without_queue.add("h1")
    terminate(conductor, uuid)
    assert conductor.state(uuid)[1] == "deleting"

    conductor.compute.without_queue.clear()
    conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
    conductor.clock.advance(conductor.limits.retry_interval_s)
    conductor.sweeper.sweep()
    assert conductor.compute.terminations == [("h1", uuid)]


def test_an_unknown_instance_is_not_found(conductor: Conductor) -> None:
    """Nothing is deleted when one of the names is wrong."""
    uuid = build_until(conductor, "active")
    with pytest.raises(errors.NotFound):
        conductor.termination.terminate(context(), [uuid, "11111111-1111-1111-1111-111111111111"])
    assert conductor.state(uuid)[0] == "active"


def test_word_of_an_instance_that_never_was_is_nothing(conductor: Conductor) -> None:
    """An agent may report that an unknown instance is destroyed; the conductor accepts the report."""
    conductor.agents.destroyed(context(), "00000000-0000-0000-0000-000000000007", "h1")
    assert [] == conductor.operator.list_instances({})
