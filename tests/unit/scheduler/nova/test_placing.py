# SPDX-License-Identifier: Apache-2.0
"""Hosts that placement refuses: one broken host harms no request, and full ones are not tried one by one."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.nova import placing, refusals
from tests import factories
from tests.clock import Time
from tests.factories import uuid
from tests.unit.scheduler.nova.recordings import arguments, contents, envelope
from tests.unit.scheduler.nova.test_claims import Answer
from tests.unit.scheduler.nova.worlds import CELL, UUIDS, EndpointInMemory, instance_row, node_row


class Broken(EndpointInMemory):
    """cmp1 has the most room, and placement does not know it."""

    adapter: Any

    def __init__(self) -> None:
        super().__init__(node_row("cmp1"), node_row("cmp2", free_ram_mb=4096), node_row("cmp3", free_ram_mb=2048))
        self.adapter.unknown = {UUIDS["cmp1"]}
        self.now = 1000.0
        self.placing._refusals = refusals.Refusals(lambda: self.now)

    def chosen(self) -> str:
        """The host of the next server."""
        return host_of(self.select(arguments()))

    @property
    def puts(self) -> int:
        return sum(1 for method, _path in self.adapter.calls if method == "PUT")


def host_of(answer: Any) -> str:
    host: str = answer[0][0]["nova_object.data"]["service_host"]
    return host


def test_a_host_that_placement_does_not_know_ends_no_request(caplog: pytest.LogCaptureFixture) -> None:
    world = Broken()
    assert "cmp2" == world.chosen()
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    (line,) = [each for each in lines if "is left out" in each]
    assert "Node cmp1 of host cmp1" in line
    assert UUIDS["cmp1"] in line


def test_it_is_not_asked_again_for_a_while() -> None:
    """The second request needs one claim. When placement knows the host again, it is used again."""
    world = Broken()
    world.chosen()
    before = world.puts
    world.adapter.held.clear()
    world.chosen()
    assert before + 1 == world.puts
    world.now += refusals.LEFT_OUT_S + 1
    world.adapter.unknown.clear()
    world.adapter.held.clear()
    assert "cmp1" == world.chosen()


def test_a_host_that_was_left_out_is_tried_before_a_request_is_refused() -> None:
    world = Broken()
    world.chosen()
    world.adapter.unknown.clear()
    world.adapter.room.update({UUIDS["cmp2"]: 0, UUIDS["cmp3"]: 0})
    world.adapter.held.clear()
    assert "cmp1" == world.chosen()


def test_if_placement_knows_no_host_the_refusal_says_so() -> None:
    world = Broken()
    world.adapter.unknown = set(UUIDS.values())
    assert "Placement refused claims on" in world.refused(arguments())


class Twice(EndpointInMemory):
    """A second scheduler gets a request that another one has answered: the server runs on cmp3, the fullest host."""

    adapter: Any

    def __init__(self, room: int = 2048) -> None:
        super().__init__(node_row("cmp1"), node_row("cmp2", free_ram_mb=4096), node_row("cmp3", free_ram_mb=room))
        self.sent = arguments()
        (self.server,) = self.sent["instance_uuids"]
        self.adapter.held[self.server] = {UUIDS["cmp3"]: {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}
        self.adapter.generations[self.server] = 1

    def held(self) -> list[str]:
        return [host for host, node in UUIDS.items() if node in self.adapter.held[self.server]]


@pytest.mark.parametrize("room", [2048, 0], ids=["with room for more", "full with the server"])
def test_a_request_that_is_delivered_twice_keeps_its_host(room: int) -> None:
    world = Twice(room)
    (found,) = contents(world.select(world.sent))
    assert ["cmp3"] == world.held() == [each["service_host"] for each in found]
    assert {UUIDS["cmp3"]} == set(json.loads(found[0]["allocation_request"])["allocations"])
    assert (1, 1) == (world.bookings(), world.adapter.generations[world.server])


def test_a_host_that_the_request_excludes_by_now_is_not_kept() -> None:
    """nova tries again elsewhere, and an older allocation has remained."""
    world = Twice()
    world.sent["spec_obj"]["nova_object.data"]["ignore_hosts"] = ["cmp3"]
    assert "cmp1" == host_of(world.select(world.sent))
    assert (["cmp1"], 1) == (world.held(), world.bookings())


def test_the_allocation_of_a_server_that_runs_survives_the_failure_of_its_second_request() -> None:
    """The other server of the request finds no room."""
    world = Twice()
    world.adapter.room.update({UUIDS["cmp1"]: 0, UUIDS["cmp2"]: 0, UUIDS["cmp3"]: 1})
    world.sent["instance_uuids"] = [world.server, uuid(8)]
    world.refused(world.sent)
    assert (["cmp3"], 0) == (world.held(), world.bookings())


class BareMetal(EndpointInMemory):
    """One compute service with three nodes, of which placement refuses claims on the first two."""

    adapter: Any

    def __init__(self) -> None:
        nodes = [
            node_row("ironic", id=number, uuid=UUIDS[name], hypervisor_hostname=name, free_ram_mb=9000 - number)
            for number, name in enumerate(UUIDS)
        ]
        super().__init__(*nodes)

    def node(self, **fields: Any) -> str:
        found: str = self.select(arguments(**fields))[0][0]["nova_object.data"]["nodename"]
        return found


def test_a_node_that_placement_refuses_leaves_the_others_of_its_host() -> None:
    """Another scheduler has taken a node of bare metal; its compute service has more."""
    world = BareMetal()
    world.adapter.room.update({UUIDS["cmp1"]: 0, UUIDS["cmp2"]: 0})
    assert "cmp3" == world.node()


def test_a_node_that_placement_does_not_know_leaves_the_others_of_its_host() -> None:
    """Also within the minute for which it is left out."""
    world = BareMetal()
    world.adapter.unknown = {UUIDS["cmp1"]}
    assert "cmp2" == world.node()
    before = len(world.adapter.calls)
    world.adapter.held.clear()
    assert "cmp2" == world.node(instance_uuid=uuid(7))
    assert before + 1 == len(world.adapter.calls)


def test_a_forced_host_that_placement_refuses() -> None:
    """The refusal does not say that the host is unknown."""
    world = EndpointInMemory()
    world.adapter.room[UUIDS["cmp2"]] = 0  # type: ignore[union-attr]
    refused = world.refused(arguments(force_hosts=["cmp2"]))
    assert "host cmp2, which the request forces, is excluded by the same request" in refused
    assert "Placement refused claims on cmp2." in refused


class Reading:
    """What is taken in placement, as ``scheduler.nova.feed`` notes it."""

    usage_wanted = 0


def test_a_request_that_fails_during_a_reading_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was decided by what was known before; the reading shows room. A further one within the second reads nothing."""
    world = EndpointInMemory()
    world.placing._notes = Reading()  # type: ignore[assignment]
    clock = Time()
    monkeypatch.setattr(placing, "time", clock)
    monkeypatch.setattr(world.host_manager, "poll", lambda: clock.sleep(0.2))
    before = clock.monotonic()
    assert world.placing._has_looked(before)
    assert world.placing._has_looked(before + 0.1)
    clock.sleep(0.5)
    assert not world.placing._has_looked(clock.monotonic())
    assert 1 == world.placing._notes.usage_wanted  # type: ignore[union-attr]


def test_full_hosts_are_not_tried_one_by_one() -> None:
    """150 hosts look emptier than the one that has room; placement is asked once which ones it offers."""
    nodes = [
        node_row(f"cmp{number}", id=number + 1, uuid=uuid(101 + number), free_ram_mb=8192 - number)
        for number in range(151)
    ]
    world = EndpointInMemory(*nodes)
    adapter: Any = world.adapter
    adapter.room = {str(each.uuid): 0 for each in nodes[:-1]} | {str(nodes[-1].uuid): 8}
    assert "cmp150" == host_of(world.select(arguments()))
    asked = [path for method, path in adapter.calls if method == "GET"]
    assert (4, 1) == (sum(1 for method, _path in adapter.calls if method == "PUT"), len(asked))
    assert asked[0].startswith("/allocation_candidates?limit=1000&resources=DISK_GB%3A1%2C")


class SharedDisk(EndpointInMemory):
    """A provider shares the disk of all hosts, and the database of placement is not read. It offers cmp5 and cmp6 only."""

    adapter: Any
    SHARED = uuid(900)

    def __init__(self) -> None:
        nodes = [
            node_row(f"cmp{number}", id=number, uuid=uuid(100 + number), free_ram_mb=8192 - number)
            for number in range(1, 7)
        ]
        super().__init__(*nodes)
        self.adapter.put = self._claim
        self.adapter.get = lambda path, body: Answer(200, self._candidates())

    def _claim(self, path: str, body: Any) -> Answer:
        held = body["allocations"]
        if any("DISK_GB" in each["resources"] for provider, each in held.items() if provider != self.SHARED):
            return Answer(409, {"errors": [{"title": "Conflict"}]})
        self.adapter.held[path.rpartition("/")[2]] = held
        return Answer(204)

    def _candidates(self) -> dict[str, Any]:
        roots = [uuid(105), uuid(106)]
        amounts = {"resources": {"VCPU": 1, "MEMORY_MB": 512}}
        return {
            "allocation_requests": [
                {
                    "allocations": {root: amounts, self.SHARED: {"resources": {"DISK_GB": 1}}},
                    "mappings": {"": [root, self.SHARED]},
                }
                for root in roots
            ],
            "provider_summaries": {each: {"root_provider_uuid": each} for each in (*roots, self.SHARED)},
        }


def test_what_placement_offers_after_refused_claims_is_claimed_and_answered() -> None:
    """The disk is that of another provider: for the chosen host and its alternate."""
    world = SharedDisk()
    (found,) = contents(world.select(arguments()))
    assert ["cmp5", "cmp6"] == [each["service_host"] for each in found]
    for each in found:
        sent = json.loads(each["allocation_request"])
        assert {each["compute_node_uuid"], SharedDisk.SHARED} == set(sent["allocations"])
    assert [uuid(105), SharedDisk.SHARED] == [each for held in world.adapter.held.values() for each in held]


def test_a_member_of_an_anti_affinity_group_is_resized_on_its_host() -> None:
    """The hosts of the group that nova sends include the server's own. That of another member is refused all the same."""
    sent = arguments()
    own, other = sent["instance_uuids"][0], uuid(2)
    rows = [dataclasses.replace(instance_row(1, "cmp1"), uuid=own), instance_row(2, "cmp2")]
    world = EndpointInMemory(node_row("cmp1"), node_row("cmp2"), instances=rows)
    group = {"policy": "anti-affinity", "members": [own, other], "hosts": ["cmp1", "cmp2"]}
    (found,) = world.select(arguments(instance_group=envelope("InstanceGroup", "1.11", **group)))
    assert ["cmp1"] == [each["nova_object.data"]["service_host"] for each in found]


def losing_a_node(world: EndpointInMemory, host: str) -> Callable[..., Any]:
    """Return a way to claim or to choose after which a host has left the cache, once."""

    def lose() -> None:
        gone = dataclasses.replace(node_row(host), deleted=True)
        world.feed.batches.append(factories.changes([gone], generation=100, services=[]))
        world.host_manager.poll()

    def after(work: Callable[..., Any]) -> Callable[..., Any]:
        def working(*arguments: Any) -> Any:
            found = work(*arguments)
            lose()
            return found

        return working

    return after


@pytest.mark.parametrize("claims", [True, False])
def test_a_node_leaves_between_choice_and_claim(claims: bool) -> None:
    """The next host is taken, and nothing is left claimed or booked on the lost one."""
    world = EndpointInMemory(claims=claims)
    world.driver.select_destinations = losing_a_node(world, "cmp1")(world.driver.select_destinations)
    assert "cmp2" == host_of(world.select(arguments()))
    assert 1 == world.bookings()
    if world.adapter is not None:
        assert [UUIDS["cmp2"]] == [provider for held in world.adapter.held.values() for provider in held]


def test_a_node_leaves_between_claim_and_answer() -> None:
    """The claim holds, so the answer names the host as it was when it was chosen."""
    world = EndpointInMemory()
    world.adapter.put = losing_a_node(world, "cmp1")(world.adapter.put)  # type: ignore[union-attr]
    found = contents(world.select(arguments()))[0][0]
    assert ("cmp1", UUIDS["cmp1"], CELL) == (found["service_host"], found["compute_node_uuid"], found["cell_uuid"])


def test_an_answer_that_cannot_be_built_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a claim nor a booking."""
    world = EndpointInMemory()

    def broken(*_arguments: object) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(placing, "_complete", broken)
    with pytest.raises(RuntimeError):
        world.select(arguments())
    assert [{}, 0] == [{uuid: held for uuid, held in world.adapter.held.items() if held}, world.bookings()]  # type: ignore[union-attr]
