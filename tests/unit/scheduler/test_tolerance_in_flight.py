# SPDX-License-Identifier: Apache-2.0
"""Promises and builds that the scheduler has placed and the database does not show yet."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.tolerance import REFUSE, Tolerance
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.drivers.loading import load_pipeline
from scheduler.compute.tolerance.losses import Renewal
from scheduler.engine.hosts.consumption import Consumption
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.hypothetical import FixedFeed
from scheduler.state.booking import Booking
from tests import factories
from tests.bench.admission import Filling, Scheduling
from tests.bench.snapshots import Guest
from tests.factories import NOW, uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_rebalance import FilledHosts, spec
from tests.unit.scheduler.test_tolerance import HOSTS, Stage, member


class Placing(Scheduling):
    """Builds that are claimed later."""

    def __init__(self, **sizes: int) -> None:
        super().__init__(Filling({host: [[size, size]] for host, size in sizes.items()}), [Tolerance(policy=REFUSE)])
        self._asked = 0

    def build(self, size: int, host: str) -> str:
        """Place a guest on a host, and return its uuid."""
        self._asked += 1
        name = factories.uuid(self._asked)
        self.fleet.known[name] = Guest(name, 1, size, size)
        asked = self.fleet.demand(name).request_spec
        properties = {"requested_destination": {"host": host}}
        self.driver.select_destinations(None, RequestSpec.from_wire(asked, properties))  # type: ignore[arg-type]
        return name

    def claimed(self, size: int, host: str) -> str:
        """Place a guest on a host, which claims it."""
        name = self.build(size, host)
        self.fleet.claim(name, host)
        return name

    def plans(self) -> dict[str, dict[str, int]]:
        """Return, by lost host, the vcpus that its plan puts on others."""
        guard = self.driver.admission._guard
        assert guard is not None
        return {loss.name: {node[0]: most[0] for node, most in loss.reserved.items()} for loss in guard.losses}


@pytest.mark.parametrize("is_claimed", [True, False])
def test_a_proof_counts_builds_that_no_host_has_claimed(is_claimed: bool) -> None:
    """Of c 1 vcpu is left, which a plan for the guest of 2 on a may not use: b is kept for it."""
    placing = Placing(a=16, b=2, c=8)
    placing.prove()
    first = placing.build(7, "c")
    if is_claimed:
        placing.fleet.claim(first, "c")
    placing.claimed(2, "a")
    placing.prove()
    assert {"a": {"b": 2}, "b": {}, "c": {"a": 7}} == placing.plans()
    with pytest.raises(errors.NoValidHost):
        placing.build(2, "b")


def test_a_proof_has_a_place_for_builds_that_no_host_has_claimed() -> None:
    """Its plans are made for all guests together, so admission need not remember them."""
    placing = Placing(a=8, b=8, c=8)
    placing.prove()
    placing.build(5, "a")
    placing.prove()
    assert [5] == [sum(plan.values()) for name, plan in placing.plans().items() if name == "a"]
    assert [] == list(placing.driver.admission._admitted)


def test_a_new_plan_keeps_its_members_of_groups_when_the_old_one_goes() -> None:
    """The new member on d has its place in the old plan for d where the new plan has one for it, too."""
    stage = Stage({"a": [6], "c": [], "d": [5]}, Tolerance(policy=REFUSE), groups=[[uuid(1)]])
    assert "d" == member(stage, uuid(1))
    admission = stage.driver.admission
    guard = admission._guard
    assert guard is not None
    (number,) = (number for number, loss in enumerate(guard.losses) if "d" in loss.hosts)
    groups = {node: there for node, there in guard.losses[number].groups.items() if there}
    assert [frozenset([uuid(800)])] == list(groups.values())
    renewed = Renewal(number, "", dict(guard.losses[number].reserved), {}, dict(groups))
    admission.renew([renewed], lambda _uuid, _node: True)
    assert groups == guard.losses[number].groups


def copied(**sizes: list[int]) -> CopiedFleet:
    fleet = FilledHosts(sizes)
    return CopiedFleet(load_pipeline(configuration()), FixedFeed(fleet.state), 60, HostManager, lambda: NOW)


def used(fleet: CopiedFleet) -> dict[str, int]:
    """Return the vcpus in use, by host."""
    return fleet.read(
        lambda hosts, _state: {
            hosts.key(row)[0]: int(hosts.column("vcpus_used")[row]) for row in hosts.rows[hosts.present()].tolist()
        }
    )


def booking(name: str, host: str, size: int) -> Booking:
    amounts = Consumption({"vcpus_used": size, "free_ram_mb": -1024 * size, "num_io_ops": 1})
    return Booking(name, (host, host), amounts, NOW.timestamp() + 60, TrackedInstance(name, host))


def test_a_copy_counts_bookings_until_they_are_left_out() -> None:
    fleet = copied(a=[1], b=[])
    assert fleet.follow([booking(uuid(900), "a", 2), booking(uuid(901), "b", 3)])
    assert {"a": 3, "b": 3} == used(fleet)
    version = fleet.read(lambda hosts, _state: hosts.version)
    assert fleet.follow([booking(uuid(900), "a", 2), booking(uuid(901), "b", 3)])
    assert version == fleet.read(lambda hosts, _state: hosts.version)
    assert fleet.follow([booking(uuid(901), "b", 3)])
    assert {"a": 1, "b": 3} == used(fleet)


def test_a_copy_does_not_count_what_the_database_shows() -> None:
    """The booking was read before the feed."""
    fleet = copied(a=[1], b=[])
    assert fleet.follow([booking(uuid(1), "a", 1)])
    assert {"a": 1, "b": 0} == used(fleet)


def test_a_trial_gives_the_booking_of_its_guest_back() -> None:
    fleet = copied(a=[], b=[])
    assert fleet.follow([booking(uuid(900), "a", 2)])
    made = fleet.decide(RequestSpec.from_wire(spec(uuid(900), 2), {"requested_destination": {"host": "b"}}))
    assert made.complete
    assert {"a": 0, "b": 2} == used(fleet)
    fleet.release(uuid(900))
    assert {"a": 2, "b": 0} == used(fleet)


def test_a_plan_whose_room_is_taken_is_not_valid_until_the_room_is_back() -> None:
    """An administrator has put a guest of 3 on c, where 6 of 8 are kept for a and b."""
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    admission = stage.driver.admission
    assert admission.compare()
    stage.build(3, force_hosts=["c"])
    assert not admission.compare()
    with pytest.raises(errors.NoValidHost, match="a takes no more, .* its plan needs more of c than is free now"):
        stage.build(1, requested_destination={"host": "a"})
    stage.driver.host_manager.release([uuid(901)])
    assert admission.compare()


def test_a_proof_is_repeated_if_its_plans_have_lost_their_room_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build comes while the plans are made, and takes the room on b that they use."""
    placing = Placing(a=16, b=4, c=4)
    placing.prove()
    placing.fleet.known[uuid(700)] = Guest("guest", 1, 4, 4)
    placing.fleet.claim(uuid(700), "a")
    publish, came = placing.prover._publish, []

    def slow(*args: object) -> None:
        if not came:
            came.append(placing.build(2, "b"))
        publish(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(placing.prover, "_publish", slow)
    placing.prove()
    assert {"a": {"c": 4}, "b": {"a": 2}, "c": {}} == placing.plans()
    guard = placing.driver.admission._guard
    assert guard is not None
    assert [""] * 3 == [loss.why for loss in guard.losses]


def test_a_node_that_has_gone_is_left_to_the_next_proof() -> None:
    """The scheduler may have read it later than the proof: then the plan is as valid as it was."""
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    guard = stage.driver.admission._guard
    assert guard is not None
    assert guard.compare({})
    assert not guard.compare(dict.fromkeys(guard.keeping, (0, 0, 0)))
