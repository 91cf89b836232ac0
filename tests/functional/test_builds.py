# SPDX-License-Identifier: Apache-2.0
"""The life of a build, step by step, in the ledger."""

from __future__ import annotations

import oslo_messaging
import pytest

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.hosts import hosts
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.objects import HostLimits, Place
from tests.worlds.conductor import INCARNATION, Conductor, context
from tests.worlds.neighbours import no_valid_host

pytestmark = pytest.mark.every_database

FAILED = Failure(step="spawn", code="SpawnFailed", message="The driver said no", duration_s=0.5)


HOSTS = ("h1", "h2", "h3")


def alternates(*hosts: str) -> list[Place]:
    return [Place(host, host, {}) for host in hosts]


def fail(conductor: Conductor, uuid: str, host: str, attempt: int, *others: str) -> None:
    conductor.placement.reschedule(context(), Attempt(uuid, attempt, host, host), FAILED, alternates(*others))


@pytest.mark.parametrize(
    ("zone", "reason"),
    [
        ("mars", "availability_zone names no zone of this fleet: 'mars'; known: nova, phobos, racks"),
        (":h9", "availability_zone names no host of this fleet: 'h9'"),
        ("nova:h9:h1", "availability_zone names no host of this fleet: 'h9' and node 'h1'"),
        ("::h9", "availability_zone names no node of this fleet: 'h9'"),
    ],
)
def test_a_zone_or_a_host_that_is_not_there(conductor: Conductor, zone: str, reason: str) -> None:
    """Refused with what there is, and nothing is accepted. Beside a host that is there any zone may stand."""
    conductor.operator.create_aggregate("a", {"availability_zone": "racks,phobos"})
    conductor.operator.create_aggregate("b", {"availability_zone": "mars"})
    conductor.operator.delete_aggregate("b")
    with pytest.raises(errors.InvalidInput) as refused:
        conductor.create(availability_zone=zone)
    assert reason == refused.value.message
    assert [] == conductor.operator.list_instances({})
    assert 4 == sum(len(conductor.create(availability_zone=known)) for known in ("nova", "phobos", "z:h1", "::h1"))


def test_a_build_goes_once_round(conductor: Conductor) -> None:
    """Accepted, placed, claimed, active: and the host's usage follows the claim."""
    (uuid,) = conductor.create()
    steps = [conductor.state(uuid)]
    conductor.scheduler.answers.append([("h1", ["h2"])])
    conductor.work()
    steps.append(conductor.state(uuid))
    conductor.claim(uuid, "h1")
    steps.append(conductor.state(uuid))
    conductor.finish(uuid, "h1")
    steps.append(conductor.state(uuid))

    assert steps == [
        ("building", "scheduling", 1, None),
        ("building", "placing", 1, None),
        ("building", "spawning", 1, "h1"),
        ("active", None, 1, "h1"),
    ]
    assert conductor.memory_used("h1") == 1024
    ((host, build),) = conductor.compute.builds
    assert (host, build["node"], build["attempt"], build["alternates"]) == (
        "h1",
        "h1",
        1,
        [{"host": "h2", "nodename": "h2", "limits": {}}],
    )


def test_the_scheduler_is_asked_as_nova_asks(conductor: Conductor) -> None:
    """The request spec and the filter properties have nova's keys; a zone with a host forces it."""
    conductor.add_host("h1")
    conductor.place("h1", availability_zone="z1:h1", scheduler_hints={"same_host": [], "mine": 1}, image={"id": "img"})

    ((spec, properties),) = conductor.scheduler.requests

    assert spec["num_instances"] == 1
    assert spec["instance_type"]["memory_mb"] == 1024
    assert spec["instance_properties"]["availability_zone"] == "z1"
    assert spec["instance_properties"]["project_id"] == "tenant"
    assert spec["image"]["id"] == "img"
    assert properties["force_hosts"] == ["h1"]
    assert properties["scheduler_hints"]["mine"] == 1
    assert "retry" not in properties


def test_several_instances_are_asked_for_at_once(conductor: Conductor) -> None:
    """One request for three instances is one question to the scheduler and one cast per instance."""
    conductor.scheduler.answers.append([("h1", ()), ("h2", ()), ("h1", ())])
    uuids = conductor.create(count=3, name="web")
    conductor.work()

    assert len(conductor.scheduler.requests) == 1
    assert [host for host, _build in conductor.compute.builds] == ["h1", "h2", "h1"]
    assert [build["instance"]["uuid"] for _host, build in conductor.compute.builds] == uuids
    assert [build["instance"]["name"] for _host, build in conductor.compute.builds] == ["web-1", "web-2", "web-3"]


def test_no_valid_host_ends_every_instance_with_the_counts(conductor: Conductor) -> None:
    """All or none: each instance is in ERROR, with a fault that has the counts per filter, and a notification."""
    conductor.scheduler.answers.append(no_valid_host())
    uuids = conductor.create(count=2)
    conductor.work()

    for uuid in uuids:
        assert conductor.state(uuid) == ("error", None, 1, None)
        (fault,) = conductor.faults(uuid)
        assert fault["error"] == "NoValidHost"
        assert fault["message"] == "No valid host was found. RamFilter left none."
        assert fault["details"]["filters"] == [{"name": "RamFilter", "start": 3, "end": 0}]
    assert [event for event, _payload in conductor.notifier.errors] == ["compute_task.build_instances"] * 2


def test_a_failed_attempt_goes_to_the_alternate_without_asking_again(conductor: Conductor) -> None:
    """The next attempt goes to the next alternate without a request to the scheduler."""
    uuid = conductor.place("h1", "h2")
    fail(conductor, uuid, "h1", 1, "h2")

    assert conductor.state(uuid) == ("building", "placing", 2, None)
    assert [(host, build["attempt"]) for host, build in conductor.compute.builds] == [("h1", 1), ("h2", 2)]
    assert conductor.compute.builds[1][1]["filter_properties"]["retry"]["hosts"] == [["h1", "h1"], ["h2", "h2"]]
    assert len(conductor.scheduler.requests) == 1


def test_without_alternates_the_scheduler_is_asked_again(conductor: Conductor) -> None:
    """The second request names the hosts that were tried."""
    uuid = conductor.place("h1")
    conductor.scheduler.answers.append([("h2", ())])
    fail(conductor, uuid, "h1", 1)
    conductor.work()

    assert conductor.scheduler.requests[1][1]["retry"] == {"num_attempts": 2, "hosts": [["h1", "h1"]]}
    assert conductor.state(uuid) == ("building", "placing", 2, None)


def test_every_attempt_is_listed_when_none_is_left(conductor: Conductor) -> None:
    """After scheduler_max_attempts hosts the build ends, and its fault names each of them with the reason."""
    uuid = conductor.place("h1", "h2", "h3")
    fail(conductor, uuid, "h1", 1, "h2", "h3")
    fail(conductor, uuid, "h2", 2, "h3")
    fail(conductor, uuid, "h3", 3)

    assert conductor.state(uuid) == ("error", None, 3, None)
    (fault,) = conductor.faults(uuid)
    assert fault["error"] == "MaxRetriesExceeded"
    tried = [(each["attempt"], each["host"], each["step"], each["reason"]) for each in fault["details"]["attempts"]]
    assert tried == [(number, f"h{number}", "spawn", FAILED.message) for number in (1, 2, 3)]
    assert f"attempt 2 on h2 in step spawn after 0.5 s: {FAILED.message}; attempt 3 on h3" in fault["message"]


FAILURES = [
    ("its driver failed", "spawn", "SpawnFailed", 1),
    ("it was too full", "claim", "ComputeResourcesUnavailable", 0),
    ("the group forbids it", "claim", "GroupAffinityViolation", 0),
    ("its agent was restarted", "agent-restart", "AgentRestarted", 0),
]


@pytest.mark.parametrize(("why", "step", "code", "counted"), FAILURES, ids=[case[0] for case in FAILURES])
def test_which_failures_make_a_host_sick(conductor: Conductor, why: str, step: str, code: str, counted: int) -> None:
    """Only what its driver could not do, at once, and only until a build succeeds there."""

    def failed_builds() -> tuple[int, int]:
        (node,) = conductor.database.read(hosts.list_all, "h1")
        return node.failed_builds, node.stats["failed_builds"]

    uuid = conductor.place("h1", "h2")
    conductor.claim(uuid, "h1")
    failure = Failure(step=step, code=code, message="no")
    conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), failure, alternates("h2"))
    assert (counted, counted) == failed_builds()

    well = conductor.place("h1")
    conductor.claim(well, "h1")
    conductor.finish(well, "h1")
    assert (0, 0) == failed_builds()


def test_the_statistics_of_a_host_follow_its_instances(conductor: Conductor) -> None:
    """Nova's keys are counted at each claim, end and deletion; keys of the driver stay."""

    def stats() -> dict:
        (node,) = conductor.database.read(hosts.list_all, "h1")
        return {key: value for key, value in node.stats.items() if value}

    done, building = conductor.place("h1", image={"properties": {"os_type": "linux"}}), conductor.place("h1")
    conductor.claim(done, "h1")
    conductor.finish(done, "h1")
    conductor.claim(building, "h1")
    assert {
        "num_instances": 2,
        "num_vm_active": 1,
        "num_vm_building": 1,
        "num_task_None": 1,
        "num_task_spawning": 1,
        "num_os_type_None": 1,
        "num_os_type_linux": 1,
        "num_proj_tenant": 2,
        "io_workload": 1,
        "workload": 1,
    } == stats()
    for uuid in (done, building):
        conductor.termination.terminate(context(), [uuid])
        conductor.agents.destroyed(context(), uuid, "h1")
    assert {} == stats()


def test_each_step_of_a_build_is_an_event(conductor: Conductor) -> None:
    """The events: create, failed attempt, claim and attempt on the next host, delete order, deletion."""
    uuid = conductor.place("h1", "h2")
    fail(conductor, uuid, "h1", 1, "h2")
    conductor.claim(uuid, "h2", attempt=2)
    conductor.finish(uuid, "h2", attempt=2)
    for _again in range(2):
        conductor.termination.terminate(context(), [uuid])
    conductor.agents.destroyed(context(), uuid, "h2")
    events = conductor.operator.show_instance(uuid)["events"]
    assert [
        ("create", 0, None, None, "success"),
        ("attempt", 1, "h1", "spawn", "SpawnFailed"),
        ("claim", 2, "h2", None, "success"),
        ("attempt", 2, "h2", None, "success"),
        ("terminate", 2, "h2", None, "success"),
        ("delete", 0, "h2", None, "success"),
    ] == [(each["event"], each["attempt"], each["host"], each["step"], each["result"]) for each in events]


def test_a_forced_host_is_not_retried(conductor: Conductor) -> None:
    """A request for one host ends when that host refuses it."""
    uuid = conductor.place("h1", "h2", availability_zone="nova:h1")
    fail(conductor, uuid, "h1", 1, "h2")

    assert conductor.state(uuid) == ("error", None, 1, None)
    assert FAILED.message in conductor.faults(uuid)[0]["message"]


@pytest.mark.parametrize(
    ("places", "sent"),
    [
        ({"requested_host": "h1"}, {"host": "h1"}),
        ({"requested_node": "h1"}, {"node": "h1"}),
        ({"requested_host": "h1", "requested_node": "h1"}, {"host": "h1", "node": "h1"}),
    ],
)
def test_filters_decide_on_a_requested_host(conductor: Conductor, places: dict[str, str], sent: dict[str, str]) -> None:
    """The scheduler considers this host only, beside a zone and at each attempt. It does not bind the instance's moves."""
    uuid = conductor.place("h1", **places, availability_zone="nova")
    fail(conductor, uuid, "h1", 1)
    conductor.scheduler.answers.append(no_valid_host())
    conductor.work()
    asked = [properties for _spec, properties in conductor.scheduler.requests]
    assert [(sent, None, [])] * 2 == [
        (each["requested_destination"], each.get("force_hosts"), each.get("ignore_hosts", [])) for each in asked
    ]
    assert sent == conductor.operator.request_of(uuid)["filter_properties"]["requested_destination"]
    (moved,) = conductor.operator.requests_of([uuid], live=True)
    assert moved["filter_properties"]["requested_destination"] is None


@pytest.mark.parametrize(
    ("places", "missing"),
    [
        ({"requested_host": "h9"}, "Host h9"),
        ({"requested_node": "h9"}, "Node h9"),
        ({"requested_host": "h1", "requested_node": "h2"}, "Node h2 of host h1"),
    ],
)
def test_a_requested_host_that_is_not_there(conductor: Conductor, places: dict[str, str], missing: str) -> None:
    """Nothing is accepted."""
    with pytest.raises(errors.NotFound, match=f"^{missing} "):
        conductor.create(**places)
    assert [] == conductor.scheduler.requests


def test_a_scheduler_that_knows_no_requested_node(conductor: Conductor) -> None:
    """Nothing is accepted: it would choose another node. A request for a host alone goes on."""
    conductor.scheduler.pinned = errors.VersionPinned(
        topic="scheduler", method="select_destinations", needs="4.11", cap="4.10", pin="auto"
    )
    with pytest.raises(errors.VersionPinned):
        conductor.create(requested_host="h1", requested_node="h1")
    conductor.place("h1", requested_host="h1")
    assert 1 == len(conductor.scheduler.requests)


def test_a_request_forces_or_requests_a_host(conductor: Conductor) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^request\.requested_host may not stand beside a host in availab"):
        conductor.create(requested_host="h1", availability_zone="nova:h1")


UNUSABLE = [
    ("its agent is down", lambda conductor: conductor.clock.advance(conductor.limits.service_down_time_s + 1)),
    ("it is disabled", lambda conductor: conductor.operator.update_service("h2", True, "fleet-compute", "broken")),
]


@pytest.mark.parametrize(("why", "lose"), UNUSABLE, ids=[case[0] for case in UNUSABLE])
def test_an_alternate_that_takes_no_builds_is_passed_over(conductor: Conductor, why: str, lose) -> None:
    """It may have been lost since the scheduler chose it: the next one is tried, and no attempt is spent on it."""
    uuid = conductor.place("h1", "h2", "h3")
    lose(conductor)
    conductor.agents.report_state(Heartbeat("fleet-compute", ["h3"], INCARNATION))
    fail(conductor, uuid, "h1", 1, "h2", "h3")

    assert [(host, build["attempt"]) for host, build in conductor.compute.builds] == [("h1", 1), ("h3", 2)]


LATE = [
    ("another attempt", 2, "h1"),
    ("an attempt long past", 0, "h1"),
]


@pytest.mark.parametrize(("why", "attempt", "host"), LATE, ids=[case[0] for case in LATE])
def test_a_late_claim_is_refused(conductor: Conductor, why: str, attempt: int, host: str) -> None:
    """A claim for an attempt that the row is not at takes nothing."""
    uuid = conductor.place("h1")
    with pytest.raises(errors.StaleBuild):
        conductor.claim(uuid, host, attempt)
    assert conductor.state(uuid) == ("building", "placing", 1, None)
    assert conductor.memory_used("h1") == 0


def test_a_repeated_claim_is_the_same_claim(conductor: Conductor) -> None:
    """An agent without an answer repeats its claim and gets the same answer; the host is charged once."""
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    assert conductor.claim(uuid, "h1").host == "h1"
    assert conductor.memory_used("h1") == 1024
    conductor.finish(uuid, "h1")
    assert conductor.finish(uuid, "h1").vm_state == "active"


def test_only_one_of_two_hosts_gets_the_instance(conductor: Conductor) -> None:
    """Two hosts have an order for one attempt: the first claim succeeds, the other is stale."""
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    with pytest.raises(errors.StaleBuild):
        conductor.claim(uuid, "h2")
    assert (conductor.memory_used("h1"), conductor.memory_used("h2")) == (1024, 0)


def test_an_earlier_life_of_an_agent_cannot_claim(conductor: Conductor) -> None:
    """After another process has registered the host, the old one's claim is refused and changes nothing."""
    uuid = conductor.place("h1")
    service = {"host": "h1", "binary": "fleet-compute", "topic": "compute", "incarnation": "life-two", "pid": 7}
    conductor.agents.register_services([service])

    with pytest.raises(errors.StaleIncarnation, match="pid 7"):
        conductor.claim(uuid, "h1")

    assert conductor.state(uuid) == ("building", "placing", 1, None)
    assert conductor.agents.report_state(Heartbeat("fleet-compute", ["h1", "h2"], INCARNATION)).superseded == ["h1"]


FULL = [
    (HostLimits(memory_mb=2047.0), "2047 MB of memory may be used, 2048 would be"),
    (HostLimits(disk_gb=19.5), "19.5 GB of disk may be used, 20 would be"),
    (HostLimits(vcpu=1.9), "1 VCPUs of CPUs may be used, 2 would be"),
]


@pytest.mark.parametrize(("limits", "why"), FULL, ids=["memory", "disk", "CPUs"])
def test_the_ledger_never_counts_more_than_a_host_may_sell(conductor: Conductor, limits: HostLimits, why: str) -> None:
    """A host that has freed room cannot claim it again before the ledger shows it as free."""
    first, second = conductor.place("h1"), conductor.place("h1")
    conductor.claim(first, "h1", limits=limits)

    with pytest.raises(errors.ComputeResourcesUnavailable, match=why):
        conductor.claim(second, "h1", limits=limits)

    assert conductor.state(second) == ("building", "placing", 1, None)
    assert conductor.memory_used("h1") == 1024
    conductor.claim(second, "h1", limits=HostLimits(memory_mb=2048, disk_gb=20, vcpu=2))
    assert conductor.memory_used("h1") == 2048


def test_a_group_policy_is_held_at_the_claim(conductor: Conductor) -> None:
    """Two members of an anti-affinity group that were sent to one host: the second claim is refused."""
    conductor.operator.create_group("apart", "anti-affinity", 1)
    first = conductor.place("h1", group="apart")
    second = conductor.place("h1", "h2", group="apart")
    conductor.claim(first, "h1")

    with pytest.raises(errors.GroupAffinityViolation):
        conductor.claim(second, "h1")

    refused = Failure(step="claim", code="GroupAffinityViolation", message="Group policy anti-affinity is violated")
    conductor.placement.reschedule(context(), Attempt(second, 1, "h1", "h1"), refused, [])
    assert conductor.claim(second, "h2").host == "h2"


def test_group_members_are_told_to_the_scheduler(conductor: Conductor) -> None:
    """Policy, members and their hosts are in the filter properties; the request's own instances count as members."""
    group = conductor.operator.create_group("together", "affinity", 1)
    first = conductor.place("h1", group="together")
    conductor.claim(first, "h1")
    second = conductor.place("h1", scheduler_hints={"group": "together"})

    properties = conductor.scheduler.requests[1][1]

    assert properties["group_policies"] == ["affinity"]
    assert properties["group_hosts"] == ["h1"]
    assert properties["group_updated"] is True
    assert sorted(properties["group_members"]) == sorted([first, second])
    assert properties["scheduler_hints"]["group"] == group["uuid"]


NOT_NOW = [
    ("no answer", oslo_messaging.MessagingTimeout()),
    ("a database that it cannot read", errors.StaleState(problem="OperationalError", age="90 s old")),
    ("keys that differ, or clocks", errors.NotTrusted(reason="select_destinations was signed 999 s ago")),
]


@pytest.mark.parametrize(("what", "answer"), NOT_NOW, ids=[case[0] for case in NOT_NOW])
def test_a_scheduler_that_cannot_answer_now_is_asked_again(conductor: Conductor, what: str, answer: Exception) -> None:
    """That is no failure of the build: the sweeper hands it out again after a while."""
    conductor.scheduler.answers.extend([answer, [("h1", ())]])
    (uuid,) = conductor.create()
    conductor.work()
    assert conductor.state(uuid) == ("building", "scheduling", 1, None)

    assert conductor.sweeper.sweep() == 0
    conductor.clock.advance(conductor.limits.retry_interval_s)
    assert conductor.sweeper.sweep() == 1
    conductor.work()

    assert [host for host, _build in conductor.compute.builds] == ["h1"]


LOST = [
    ("the cast to the workers", lambda conductor: conductor.tasks.cast.clear(), "placing_timeout_s"),
    ("the cast to the agent", lambda conductor: conductor.work(), "placing_timeout_s"),
]


@pytest.mark.parametrize(("what", "lose", "limit"), LOST, ids=[case[0] for case in LOST])
def test_a_lost_message_is_found_by_the_sweeper(conductor: Conductor, what: str, lose, limit: str) -> None:
    """Whichever message is lost, the build is placed anew at the same attempt once its step is overdue."""
    conductor.scheduler.answers.extend([[("h1", ())]] * 2)
    (uuid,) = conductor.create()
    lose(conductor)
    conductor.clock.advance(getattr(conductor.limits, limit))
    conductor.sweeper.sweep()
    conductor.work()

    conductor.claim(uuid, "h1")
    assert conductor.finish(uuid, "h1").vm_state == "active"


def test_each_build_avoids_the_hosts_it_was_tried_on(conductor: Conductor) -> None:
    """Builds of one request that failed on different hosts are handed out together and placed one by one."""
    conductor.scheduler.answers.append([("h1", ()), ("h2", ())])
    first, second = conductor.create(count=2)
    conductor.work()
    fail(conductor, first, "h1", 1)
    fail(conductor, second, "h2", 1)
    conductor.tasks.cast.clear()
    conductor.clock.advance(conductor.limits.retry_interval_s)
    conductor.sweeper.sweep()
    conductor.scheduler.answers.extend([[("h2", ())], [("h1", ())]])
    conductor.work()

    asked = [properties["retry"]["hosts"] for _spec, properties in conductor.scheduler.requests[1:]]
    assert [[["h1", "h1"]], [["h2", "h2"]]] == asked


def test_duplicates_are_placed_once(conductor: Conductor) -> None:
    """Fifty copies of one message lead to one question to the scheduler and one cast."""
    conductor.scheduler.answers.append([("h1", ())])
    (uuid,) = conductor.create()
    (message,) = conductor.tasks.cast
    conductor.tasks.cast.extend([message] * 49)
    conductor.work()

    assert len(conductor.scheduler.requests) == 1
    assert len(conductor.compute.builds) == 1


def test_a_build_ends_at_its_deadline(conductor: Conductor) -> None:
    """A build without a host ends in ERROR; its fault names the step that was lost."""
    (uuid,) = conductor.create()
    conductor.tasks.cast.clear()
    conductor.clock.advance(conductor.limits.build_timeout_s)
    conductor.sweeper.sweep()

    assert conductor.state(uuid) == ("error", None, 1, None)
    (fault,) = conductor.faults(uuid)
    assert fault["error"] == "BuildTimeout"
    assert "lost in step scheduling" in fault["message"]


def test_deadlines_are_kept_without_a_broker(conductor: Conductor) -> None:
    """Ending a build sends no message. The sweeper does not retry steps of a build that has ended."""
    (uuid,) = conductor.create()
    conductor.tasks.cast.clear()
    conductor.clock.advance(conductor.limits.build_timeout_s)

    assert 0 == conductor.sweeper.retry_lost()
    assert 1 == conductor.sweeper.end_overdue()
    assert ("error", None, 1, None) == conductor.state(uuid)
    assert not conductor.tasks.cast


def test_a_host_that_dies_while_spawning_loses_the_build(conductor: Conductor) -> None:
    """Without heartbeats of the host, the attempt fails and its claim is released; the build goes to another host."""
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.scheduler.answers.append([("h2", ())])
    conductor.clock.advance(conductor.limits.service_down_time_s + 1)
    conductor.agents.report_state(Heartbeat("fleet-compute", ["h2", "h3"], INCARNATION))
    conductor.sweeper.sweep()
    conductor.work()

    assert conductor.state(uuid) == ("building", "placing", 2, None)
    assert conductor.memory_used("h1") == 0
    with pytest.raises(errors.StaleBuild):
        conductor.finish(uuid, "h1")
    conductor.claim(uuid, "h2", attempt=2)
    assert conductor.finish(uuid, "h2", attempt=2).host == "h2"


def test_a_host_that_spawns_for_too_long_loses_the_build(database: Database) -> None:
    """Its agent lives, but the step's time is over."""
    conductor = Conductor(database, StepLimits(service_down_time_s=10**6))
    conductor.add_host("h1")
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.clock.advance(conductor.limits.spawn_timeout_s)
    conductor.sweeper.sweep()

    assert conductor.state(uuid) == ("building", "scheduling", 2, None)


def test_a_requested_flavor_must_fit_its_image(conductor: Conductor) -> None:
    """A flavor too small for the image is refused at the door, and no row is written."""
    with pytest.raises(errors.InvalidInput, match="request.flavor.memory_mb"):
        conductor.create(image={"id": "big", "min_ram": 4096})
    assert conductor.operator.list_instances({}) == []


def test_unknown_names_are_refused_at_the_door(conductor: Conductor) -> None:
    """No such flavor, no such group: a typed error that names it."""
    with pytest.raises(errors.NotFound, match="Flavor m1.none"):
        conductor.create(flavor="m1.none")
    with pytest.raises(errors.NotFound, match="Server group nobody"):
        conductor.create(group="nobody")


def test_daemons_that_share_a_record_keep_it_alive_together(database: Database) -> None:
    """A heartbeat that names no incarnation is taken from any process; one for a host without a record is not."""
    conductor = Conductor(database)
    conductor.agents.register_services([{"host": "c1", "binary": "fleet-conductor", "topic": "conductor"}])
    assert conductor.agents.report_state(Heartbeat("fleet-conductor", ["c1", "c2"], "")).superseded == ["c2"]
