# SPDX-License-Identifier: Apache-2.0
"""Steps of many builds in one call: one transaction, and for each the answer that it would have had alone."""

from __future__ import annotations

import json
import logging
import pathlib
import random
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_context import context as oslo_context
from oslo_messaging.rpc import dispatcher

from conductor_stub.agents.manager import MOST_STEPS
from conductor_stub.builds import claims
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors
from fleet.context import new_context
from fleet.db.engine.database import Database, Transaction
from fleet.db.tables import models
from fleet.objects import Finish
from tests.worlds.conductor import INCARNATION, Conductor, context, step_answer

HOSTS = ("h1", "h2", "h3", "h4")
LIMITS = {"memory_mb": 8000.0}


class BuildSteps(Conductor):
    """``ask`` returns what the agent receives: an instance or an error for each step."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.manager = self.agent_manager
        self.add_hosts(HOSTS)

    def ask(self, *steps: dict[str, Any]) -> list[Any]:
        return [step_answer(answer) for answer in self.manager.build_steps(context(), steps=list(steps))]

    def restart(self, host: str) -> None:
        """Its agent's next life."""
        self.agents.leave("fleet-compute", [host], INCARNATION)
        self.add_host(host, incarnation="next life")

    def since(self, uuid: str) -> list[dict[str, Any]]:
        """What has happened to it since it was accepted."""
        return self.events(uuid)[1:]

    def generation(self) -> int:
        return self.database.read(lambda tx: tx.execute(sa.select(models.generations.c.value)).scalar_one())

    def stamps(self) -> set[int]:
        """Of the nodes and the instances on them."""

        def read(tx: Any) -> set[int]:
            found = tx.execute(sa.select(models.instances.c.generation).where(models.instances.c.host.is_not(None)))
            nodes = tx.execute(sa.select(models.compute_nodes.c.generation)).scalars()
            return {*found.scalars(), *nodes}

        return self.database.read(read)


@pytest.fixture
def conductor(database: Database) -> BuildSteps:
    return BuildSteps(database)


def claim(uuid: str, host: str, **changed: Any) -> dict[str, Any]:
    step = {"method": "claim_instance", "instance_uuid": uuid, "attempt": 1, "host": host, "node": host}
    whose = {"request_id": f"req-{uuid}", "project_id": "tenant", "user_id": "user"}
    amount = {"memory_mb": 1024, "disk_gb": 10, "vcpus": 1}
    return {**step, **whose, "incarnation": INCARNATION, "claim": amount, "limits": LIMITS, **changed}


def finish(uuid: str, host: str, **changed: Any) -> dict[str, Any]:
    step = {"method": "finish_build", "instance_uuid": uuid, "attempt": 1, "host": host, "power_state": 1}
    return {**step, "request_id": f"req-{uuid}", "project_id": "tenant", "user_id": "user", **changed}


def states(told: list[Any]) -> list[Any]:
    return [
        type(each).__name__ if isinstance(each, Exception) else (each["vm_state"], each["task_state"]) for each in told
    ]


SPAWNING, ACTIVE = ("building", "spawning"), ("active", None)
VIOLATION = "GroupAffinityViolation"


def test_claims_and_finishes_are_one_transaction(conductor: BuildSteps) -> None:
    """Instances, usage and history are as if each step had come alone; the change counter advances once."""
    uuids = [conductor.place(host) for host in (*HOSTS, "h1")]
    *others, last = uuids
    before = conductor.generation()
    assert [SPAWNING] * 4 == states(conductor.ask(*map(claim, others, HOSTS)))
    assert before + 1 == conductor.generation()
    assert {before + 1} == conductor.stamps()

    conductor.clock.advance(2)
    told = conductor.ask(claim(last, "h1"), *map(finish, others, HOSTS))
    assert [SPAWNING, ACTIVE, ACTIVE, ACTIVE, ACTIVE] == states(told)
    assert before + 2 == conductor.generation()
    assert {before + 2} == conductor.stamps()

    assert [2048, 1024, 1024, 1024] == [conductor.memory_used(host) for host in HOSTS]
    assert [("building", "spawning", 1, "h1"), *(("active", None, 1, host) for host in HOSTS)] == [
        conductor.state(uuid) for uuid in (last, *others)
    ]
    for uuid, host in zip(others, HOSTS, strict=True):
        told_events = [(event["event"], event["host"], event["request_id"]) for event in conductor.since(uuid)]
        assert [("claim", host, f"req-{uuid}"), ("attempt", host, f"req-{uuid}")] == told_events
        assert [None, 2.0] == [event["duration_s"] for event in conductor.since(uuid)]


def test_many_steps_are_one_transaction_too(conductor: BuildSteps) -> None:
    """More than the last statement takes."""
    hosts = [f"many{number:02}" for number in range(20)]
    conductor.add_hosts(hosts)
    uuids = [conductor.place(host) for host in hosts]
    before = conductor.generation()
    assert [SPAWNING] * 20 == states(conductor.ask(*map(claim, uuids, hosts)))
    assert [ACTIVE] * 20 == states(conductor.ask(*map(finish, uuids, hosts)))
    assert before + 2 == conductor.generation()
    assert {1024} == {conductor.memory_used(host) for host in hosts}
    assert {("claim", "attempt")} == {tuple(each["event"] for each in conductor.since(uuid)) for uuid in uuids}


def test_a_repeated_call_does_nothing(conductor: BuildSteps) -> None:
    """Each is answered as before; nothing is counted, stamped or noted twice."""
    uuids = [conductor.place(host) for host in HOSTS]
    for steps in ([claim(uuid, host) for uuid, host in zip(uuids, HOSTS, strict=True)],) * 2:
        claimed = conductor.ask(*steps)
    assert [SPAWNING] * 4 == states(claimed)
    for steps in ([finish(uuid, host) for uuid, host in zip(uuids, HOSTS, strict=True)],) * 2:
        finished = conductor.ask(*steps)
    before = conductor.generation()
    conductor.clock.advance(5)
    assert finished == conductor.ask(*map(finish, uuids, HOSTS))
    # What was finished cannot be claimed again.
    assert ["StaleBuild"] * 4 == states(conductor.ask(*map(claim, uuids, HOSTS)))
    assert before == conductor.generation()
    assert [1024] * 4 == [conductor.memory_used(host) for host in HOSTS]
    assert {("claim", "attempt")} == {tuple(each["event"] for each in conductor.since(uuid)) for uuid in uuids}


NOBODY = "00000000-0000-0000-0000-000000000000"
REFUSED = [
    ("of another attempt", {"attempt": 2}, "StaleBuild"),
    ("of an agent that was replaced", {"incarnation": "another life"}, "StaleIncarnation"),
    ("of an instance that is not there", {"instance_uuid": NOBODY}, "NotFound"),
    ("for which there is no room", {"limits": {"memory_mb": 1000.0}}, "ComputeResourcesUnavailable"),
    ("without a host", {"host": ""}, "InvalidInput"),
]


@pytest.mark.parametrize(("what", "changed", "expected"), REFUSED, ids=[case[0] for case in REFUSED])
def test_one_that_is_refused_does_not_hold_back_the_others(
    conductor: BuildSteps, what: str, changed: dict[str, Any], expected: str
) -> None:
    """It gets its error and leaves nothing; the other steps get their answers."""
    first, bad, last = (conductor.place(host) for host in HOSTS[:3])
    told = conductor.ask(claim(first, "h1"), {**claim(bad, "h2"), **changed}, claim(last, "h3"))
    assert [SPAWNING, expected, SPAWNING] == states(told)
    assert [1024, 0, 1024] == [conductor.memory_used(host) for host in HOSTS[:3]]
    assert ("building", "placing", 1, None) == conductor.state(bad)
    assert [] == conductor.since(bad)


def test_a_finish_that_is_refused(conductor: BuildSteps) -> None:
    """Its build has gone on elsewhere."""
    uuids = [conductor.place(host) for host in ("h1", "h2")]
    conductor.ask(*map(claim, uuids, ("h1", "h2")))
    told = conductor.ask(finish(uuids[0], "h1"), finish(uuids[1], "h3"))
    assert [ACTIVE, "StaleBuild"] == states(told)
    assert f"Build of instance {uuids[1]} attempt 1 is no longer expected here" in told[1].message


@pytest.mark.parametrize("together", [False, True])
def test_a_finish_of_an_earlier_life_comes_too_late(conductor: BuildSteps, together: bool) -> None:
    """The agent that serves the host now has read that the build is under way here, and gives it up: guest and all."""
    late, well = (conductor.place(host) for host in ("h1", "h2"))
    conductor.ask(claim(late, "h1"), claim(well, "h2"))
    conductor.restart("h1")
    others = [finish(well, "h2", incarnation=INCARNATION)] if together else []
    told = conductor.ask(finish(late, "h1", incarnation=INCARNATION), *others)
    assert ["StaleIncarnation", *([ACTIVE] if together else [])] == states(told)
    assert ("building", "spawning", 1, "h1") == conductor.state(late)
    # An agent of the release before does not say whose life it is.
    assert [ACTIVE] == states(conductor.ask(finish(late, "h1")))


def test_nobody_takes_a_host_over_while_a_finish_is_written(conductor: BuildSteps, database: Database) -> None:
    """Else the next life would read that the build is under way, and destroy the guest of what is ACTIVE then."""
    uuid = conductor.place("h1")
    conductor.ask(claim(uuid, "h1"))
    conductor.agents.leave("fleet-compute", ["h1"], INCARNATION)
    step = Finish(uuid, 1, "h1", 1, INCARNATION)
    work = claims.transaction([claims.StepReport(step, None)], StepContext(StepLimits(), conductor.clock()))
    with futures.ThreadPoolExecutor(1) as other:

        def finish_while_another_comes(tx: Transaction) -> futures.Future:
            work(tx)
            coming = other.submit(conductor.add_host, "h1", incarnation="next life")
            with pytest.raises(futures.TimeoutError):
                coming.result(0.5)
            return coming

        database.write(finish_while_another_comes).result(30)
    assert ("active", None, 1, "h1") == conductor.state(uuid)


def test_a_finish_may_be_repeated_by_a_later_life(conductor: BuildSteps) -> None:
    """The step is done already, so the incarnation is not checked."""
    uuid = conductor.place("h1")
    conductor.ask(claim(uuid, "h1"))
    conductor.ask(finish(uuid, "h1", incarnation=INCARNATION))
    conductor.restart("h1")
    assert [ACTIVE] == states(conductor.ask(finish(uuid, "h1", incarnation=INCARNATION)))


def test_a_group_policy_is_held_among_those_that_come_together(conductor: BuildSteps) -> None:
    """Two members of an anti-affinity group claim one host in one transaction: only the first gets it."""
    conductor.operator.create_group("apart", "anti-affinity", 1)
    first, second, third = (conductor.place(host, group="apart") for host in ("h1", "h1", "h2"))
    told = conductor.ask(claim(first, "h1"), claim(second, "h1"), claim(third, "h2"))
    assert [SPAWNING, "GroupAffinityViolation", SPAWNING] == states(told)
    assert [1024, 1024] == [conductor.memory_used(host) for host in ("h1", "h2")]


@pytest.mark.parametrize(
    ("there", "arriving", "expected"),
    [
        ("", ["h1", "h1", "h1"], [SPAWNING] * 3),
        ("", ["h1", "h1", "h2", "h2"], [SPAWNING, SPAWNING, VIOLATION, VIOLATION]),
        ("", ["h1", "h2", "h1", "h2"], [SPAWNING, VIOLATION, SPAWNING, VIOLATION]),
        ("h2", ["h1", "h1", "h2", "h2"], [VIOLATION, VIOLATION, SPAWNING, SPAWNING]),
    ],
    ids=["all on one host", "two pairs", "two pairs, mixed", "where the group is"],
)
def test_a_group_that_comes_together_does_not_part(
    conductor: BuildSteps, there: str, arriving: list[str], expected: list[Any]
) -> None:
    """Members on one host do not stand for each other against those on another."""
    conductor.operator.create_group("together", "affinity", 1)
    if there:
        conductor.claim(conductor.place(there, group="together"), there)
    uuids = [conductor.place(host, group="together") for host in arriving]
    told = conductor.ask(*(claim(uuid, host) for uuid, host in zip(uuids, arriving, strict=True)))
    assert expected == states(told)
    assert 1 == len({conductor.state(uuid)[3] for uuid in uuids} - {None})


def test_limits_are_held_among_those_that_come_together(conductor: BuildSteps) -> None:
    """There is room for one of them."""
    first, second = (conductor.place("h1") for _ in range(2))
    limits = {"memory_mb": 1500.0}
    told = conductor.ask(claim(first, "h1", limits=limits), claim(second, "h1", limits=limits))
    assert [SPAWNING, "ComputeResourcesUnavailable"] == states(told)
    assert 1024 == conductor.memory_used("h1")


def test_steps_of_one_instance_are_taken_in_their_order(conductor: BuildSteps) -> None:
    """No agent sends two steps of one instance in a message; if one does, they are recorded one after the other."""
    uuid = conductor.place("h1")
    assert [SPAWNING, ACTIVE, ACTIVE] == states(
        conductor.ask(claim(uuid, "h1"), finish(uuid, "h1"), finish(uuid, "h1"))
    )
    assert [] == conductor.ask()


def test_a_host_that_is_not_reported_has_no_usage(conductor: BuildSteps) -> None:
    """As for one alone."""
    first, second = conductor.place("h1"), conductor.place("h2")
    assert [SPAWNING, SPAWNING] == states(conductor.ask(claim(first, "h1", node="gone"), claim(second, "h2")))
    assert [0, 1024] == [conductor.memory_used(host) for host in ("h1", "h2")]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("an unknown method", {"method": "reschedule"}, "steps.1.method"),
    ("no attempt", {"attempt": None}, "steps.1.attempt"),
    ("no instance", {"instance_uuid": "all of them"}, "steps.1.instance_uuid"),
    ("no claim", {"claim": None}, "steps.1.claim"),
    ("a claim of too much", {"claim": {"memory_mb": -1, "disk_gb": 1, "vcpus": 1}}, "steps.1.claim.memory_mb"),
    ("odd limits", {"limits": {"vcpu": "many"}}, "steps.1.limits.vcpu"),
    ("an odd request", {"request_id": 7}, "steps.1.request_id"),
]


@pytest.mark.parametrize(("what", "changed", "field"), WRONG, ids=[case[0] for case in WRONG])
def test_the_field_that_is_wrong_is_named(
    conductor: BuildSteps, what: str, changed: dict[str, Any], field: str
) -> None:
    """The other step is recorded."""
    good, bad = conductor.place("h1"), conductor.place("h2")
    told = conductor.ask(claim(good, "h1"), claim(bad, "h2", **changed))
    assert [SPAWNING, "InvalidInput"] == states(told)
    assert field == told[1].field


@pytest.mark.parametrize("steps", [[{}] * (MOST_STEPS + 1), ["claim"], None, {}], ids=["many", "text", "none", "one"])
def test_what_is_no_list_of_steps_is_refused(conductor: BuildSteps, steps: Any) -> None:
    """As a whole, with the argument's name."""
    with pytest.raises(dispatcher.ExpectedException) as refused:
        conductor.manager.build_steps(context(), steps=steps)
    error = refused.value.exc_info[1]
    assert isinstance(error, errors.InvalidInput)
    assert error.field.startswith("steps")


@pytest.mark.parametrize("alone", [True, False], ids=["one by one", "in one transaction"])
def test_each_build_has_its_line(conductor: BuildSteps, caplog: pytest.LogCaptureFixture, alone: bool) -> None:
    """With its own request, project, instance, attempt and host."""
    uuids = [conductor.place(host, name=f"vm-{host}") for host in ("h1", "h2")]
    conductor.ask(*map(claim, uuids, HOSTS[:2]))
    steps = [finish(uuid, host, project_id=f"of-{host}") for uuid, host in zip(uuids, HOSTS, strict=False)]
    if alone:
        steps.append(finish(NOBODY, "h1"))
    said: list[tuple[Any, ...]] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            about = oslo_context.get_current().get_logging_values()
            names = ("request_id", "project_id", "instance_uuid", "attempt", "build_host")
            said.append((record.getMessage()[:29], *(about[name] for name in names)))

    listener, log = Listener(logging.INFO), logging.getLogger("conductor_stub.agents.api")
    log.addHandler(listener)
    with caplog.at_level(logging.INFO):
        conductor.ask(*steps)
    log.removeHandler(listener)
    assert [
        (f"Instance is ACTIVE on node {host}", f"req-{uuid}", f"of-{host}", uuid, 1, host)
        for uuid, host in zip(uuids, HOSTS, strict=False)
    ] == said


@pytest.mark.parametrize("point", ["conductor.claim", "conductor.finish"])
@pytest.mark.parametrize("when", ["before_commit", "after_commit"])
def test_a_transaction_of_several_passes_the_points_of_each(
    conductor: BuildSteps, points: pathlib.Path, caplog: pytest.LogCaptureFixture, point: str, when: str
) -> None:
    """A failure there repeats the whole transaction, and nothing is done twice."""
    uuids = [conductor.place(host) for host in HOSTS[:3]]
    conductor.ask(claim(uuids[0], "h1"))
    points.write_text(json.dumps({f"{point}.{when}": {"action": "disconnect", "times": 1}}))
    told = conductor.ask(finish(uuids[0], "h1"), claim(uuids[1], "h2"), claim(uuids[2], "h3"))
    assert [ACTIVE, SPAWNING, SPAWNING] == states(told)
    assert f"Failpoint {point}.{when}: disconnect" in caplog.messages
    assert [1024] * 3 == [conductor.memory_used(host) for host in HOSTS[:3]]
    assert [["claim", "attempt"], ["claim"], ["claim"]] == [
        [each["event"] for each in conductor.since(uuid)] for uuid in uuids
    ]


def test_calls_that_meet_on_the_same_hosts(conductor: BuildSteps) -> None:
    """Each call locks rows of the others, in any order of its steps. All are recorded, and usage is their sum."""
    chance = random.Random(7)
    builds = [(conductor.place(host), host) for host in HOSTS * 8]
    for step in (claim, finish):
        chance.shuffle(builds)
        calls = [[step(uuid, host, limits={}) for uuid, host in builds[first::8]] for first in range(8)]
        with futures.ThreadPoolExecutor(len(calls)) as pool:
            told = [each for answered in pool.map(lambda call: conductor.ask(*call), calls) for each in answered]
        assert [] == [each for each in told if isinstance(each, Exception)]
    assert [8 * 1024] * 4 == [conductor.memory_used(host) for host in HOSTS]
    assert {("active", None, 1)} == {conductor.state(uuid)[:3] for uuid, _host in builds}


def test_the_answers_are_those_of_the_single_calls(conductor: BuildSteps) -> None:
    """The answer for an instance has the same form."""
    first, second = conductor.place("h1"), conductor.place("h2")
    told, _other = conductor.ask(claim(first, "h1"), claim(second, "h2"))
    arguments = {key: value for key, value in claim(first, "h1").items() if key != "method"}
    assert told == conductor.manager.claim_instance(new_context(), **arguments)
