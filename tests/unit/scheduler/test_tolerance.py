# SPDX-License-Identifier: Apache-2.0
"""Placements that keep a promise to survive the loss of a host or a rack."""

from __future__ import annotations

import dataclasses
import random
import types
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fleet import errors
from fleet.objects import RequestSpec
from fleet.objects.tolerance import LAST, REFUSE, WARN, Tolerance
from fleet.reasons import Reason
from fleet.telemetry import metrics
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.planning.losses.promises import Prover
from scheduler.engine.hosts.consumption import Consumption
from scheduler.planning.hypothetical import FixedFeed
from scheduler.state.booking import Booking
from tests.factories import NOW, aggregate, uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_rebalance import FilledHosts, spec

SIZE = 8


class Notifications:
    def info(self, context: Any, event_type: str, payload: dict[str, Any]) -> None:
        pass


class Stage:
    """Hosts of 8 vcpus and 8 GB with guests of these sizes in both; a scheduler over them, and its prover."""

    def __init__(
        self,
        hosts: dict[str, list[int]],
        *promises: Tolerance,
        aggregates: Sequence[Any] = (),
        groups: Sequence[Sequence[str]] = (),
    ) -> None:
        """:param groups: guests that stay apart"""
        self.fleet = FilledHosts(hosts)
        for names in groups:
            self.fleet.group("anti-affinity", *names)
        self.fleet.state = dataclasses.replace(self.fleet.state, aggregates=aggregates)
        self.promises = list(promises)
        self.conf = conf = configuration()
        feed = FixedFeed(self.fleet.state)
        self.driver = FilterScheduler(conf, HostManager(feed, feed, lambda: NOW), Notifications())
        self.prover = Prover(
            *(conf, self.driver.admission, lambda: self.promises),
            *(lambda: FixedFeed(self.fleet.state), lambda: NOW, self._ask),
            decides_by=lambda: self.driver.pipeline,
            booked=self.driver.host_manager.bookings,
        )
        self.guests = {host: list(sizes) for host, sizes in hosts.items()}
        self._asked = 0
        self.prover.prove()

    def _ask(self, uuids: list[str]) -> list[dict[str, Any]]:
        known = [name for name in uuids if name in self.fleet.hosts]
        found = [self.fleet.request_of(name) for name in known]
        return [
            {"uuid": name, "request_spec": each.request_spec, "filter_properties": each.filter_properties}
            for name, each in zip(known, found, strict=True)
        ]

    def build(self, size: int, extra_specs: dict[str, str] | None = None, **properties: Any) -> str:
        """Return the host of a new guest, or ``host/node``."""
        self._asked += 1
        asked = spec(uuid(900 + self._asked), size)
        asked["instance_type"]["extra_specs"] = extra_specs or {}
        request = RequestSpec.from_wire(asked, properties)
        (selection,) = self.driver.select_destinations(None, request)
        host, node = selection.host, selection.nodename
        key = host if host == node else f"{host}/{node}"
        self.guests[key].append(size)
        return key


def member(stage: Stage, *members: str, size: int = 2) -> str:
    """Return the host of a new member of the first guest's group, whose members stay apart."""
    hosts = sorted({stage.fleet.hosts[each] for each in members})
    group = {"group_uuid": uuid(800), "group_policies": ["anti-affinity"], "group_members": [*members]}
    return stage.build(size, **group, group_hosts=hosts)


def refused(stage: Stage, size: int) -> str:
    """Return why no host is found."""
    with pytest.raises(errors.NoValidHost) as refusal:
        stage.build(size)
    assert Reason.TOLERANCE == refusal.value.reason_code
    return refusal.value.reason


def objections(policy: str) -> float:
    return metrics.TOLERANCE_OBJECTIONS.labels(policy)._value.get()


#: c must keep 6 free for a's guest or b's, whichever is lost.
HOSTS = {"a": [6], "b": [6], "c": []}


def test_a_build_that_would_break_the_promise_is_refused_with_numbers() -> None:
    reason = refused(Stage(HOSTS, Tolerance(policy=REFUSE)), 3)
    assert "The fleet tolerates the loss of 1 host, and no host would keep this promise" in reason
    assert "c has 8 vcpus free, of which 6 are kept for the guests of" in reason
    assert "3 more do not fit beside them" in reason


@pytest.mark.parametrize(
    ("policy", "promised", "hosts"),
    [
        (REFUSE, True, []),
        pytest.param(REFUSE, False, ["c"], id="fleet explain shows the choice before the promise"),
        pytest.param(LAST, True, [], id="a placement would break it all the same, a move of the balancer must not"),
        pytest.param(WARN, True, [], id="whatever the policy"),
    ],
)
def test_what_a_promise_refuses_is_explained_if_that_is_wanted(policy: str, promised: bool, hosts: list[str]) -> None:
    """Nothing is booked, and no plan has another guest afterwards."""
    stage = Stage(HOSTS, Tolerance(policy=policy))
    for _time in range(2):
        properties = {"promised": promised, "requested_destination": {"host": "c"}}
        request = RequestSpec.from_wire(spec(uuid(700), 3), properties)
        answer = stage.driver.explain(None, request, 1)
        assert hosts == [each["host"] for each in answer["picks"]]
        assert ("which 6 are kept for the guests of" in (answer["reason"] or "")) is (not hosts)
        assert [bool(hosts)] == [any("which 6 are kept for the guests of" in each for each in answer["remarks"])]
        assert any("counts as free" in each for each in stage.driver.capacity(None, request, None)["remarks"])
    assert "c" == stage.build(2)


def moves(stage: Stage, size: int, host: str) -> bool:
    """Return whether the scheduler lets the balancer move a guest of this size to a host."""
    properties = {"promised": True, "requested_destination": {"host": host}}
    answer = stage.driver.explain(None, RequestSpec.from_wire(spec(uuid(700), size), properties), 1)
    return bool(answer["picks"])


@pytest.mark.parametrize(("policy", "holds_up"), [(REFUSE, True), (LAST, False), (WARN, False)])
def test_a_loss_that_is_not_survived_holds_up_moves_only_if_the_promise_refuses(policy: str, holds_up: bool) -> None:
    """No host has room for the guests of any other one, so that a move breaks nothing that holds."""
    stage = Stage({"a": [6, 1], "b": [6, 1], "c": [6]}, Tolerance(policy=policy))
    assert moves(stage, 1, "c") is not holds_up


@pytest.mark.parametrize("policy", [REFUSE, LAST, WARN])
def test_a_move_of_the_balancer_is_refused_when_it_is_made(policy: str) -> None:
    """Another guest has come since it was suggested. Nothing stays booked: one of 2 fits afterwards."""
    stage = Stage(HOSTS, Tolerance(policy=policy))
    with pytest.raises(errors.NoValidHost, match="which 6 are kept") as refusal:
        stage.build(3, promised=True, requested_destination={"host": "c"})
    assert Reason.TOLERANCE == refusal.value.reason_code
    assert "c" == stage.build(2, promised=True)


def test_losses_share_what_is_kept() -> None:
    """Only one of a and b is lost at a time: 2 of 8 are left on c, and its guest has its place on a or b."""
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    assert "c" == stage.build(2)
    assert stage.build(2) in ("a", "b")
    refused(stage, 2)


def test_small_fleets_keep_room_on_few_hosts() -> None:
    """Whichever of a and b is lost, both of its guests go to c: d is free for others."""
    stage = Stage({"a": [2, 3], "b": [3, 2], "c": [], "d": []}, Tolerance(policy=REFUSE))
    guard = stage.driver.admission._guard
    assert guard is not None
    assert ([("c", "c")], 5) == (guard.keeping, guard.kept(("c", "c"))[0])


def test_a_refusal_leaves_nothing_booked() -> None:
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    for _time in range(3):
        refused(stage, 3)
    assert "c" == stage.build(2)


def test_a_guest_goes_elsewhere_before_it_breaks_the_promise() -> None:
    """The scheduler prefers c, the emptiest; b is left, where nothing is kept."""
    stage = Stage({"a": [7], "b": [5], "c": [], "d": [6]}, Tolerance(policy=REFUSE))
    assert "b" == stage.build(2)


@pytest.mark.parametrize("policy", [WARN, LAST])
def test_other_policies_place_it_and_say_so(policy: str, caplog: pytest.LogCaptureFixture) -> None:
    before = objections(policy)
    assert "c" == Stage(HOSTS, Tolerance(policy=policy)).build(3)
    assert before + 1 == objections(policy)
    assert "A placement breaks the promise of the fleet (1 host): c has 8 vcpus free" in caplog.text


def test_the_strictest_promise_decides() -> None:
    refused(Stage(HOSTS, Tolerance(policy=WARN), Tolerance(number=1, policy=REFUSE)), 3)


@pytest.mark.parametrize("policy", [WARN, LAST])
def test_a_weaker_promise_that_is_broken_already_hides_no_stricter_one(policy: str) -> None:
    """The loss of two hosts is not survived anyway; that of one is, as long as c keeps 6."""
    refused(Stage(HOSTS, Tolerance(number=2, policy=policy), Tolerance(policy=REFUSE)), 3)


@pytest.mark.parametrize("policy", [WARN, LAST])
def test_the_promise_of_another_scope_refuses_nothing(policy: str) -> None:
    """c keeps room for a and b, of which the promise of the aggregate knows nothing."""
    west, east = aggregate(["a", "b", "c"], 1), aggregate(["p", "q"], 2)
    promises = [
        Tolerance(kind="aggregate", name=west.name, policy=policy),
        Tolerance(kind="aggregate", name=east.name, policy=REFUSE),
    ]
    stage = Stage({"a": [6], "b": [6], "c": [], "p": [1], "q": [1]}, *promises, aggregates=[west, east])
    assert "c" == stage.build(3, requested_destination={"host": "c"})


@pytest.mark.parametrize("policy", [WARN, LAST])
def test_a_host_to_which_only_a_weaker_promise_objects_is_taken(policy: str) -> None:
    """The scheduler prefers c, which a stricter promise needs."""
    hosts = {"a": [6], "b": [6], "c": [], "d": [5]}
    assert "d" == Stage(hosts, Tolerance(number=2, policy=policy), Tolerance(policy=REFUSE)).build(3)


@pytest.mark.parametrize(
    "passing",
    [
        pytest.param({"restores": True}, id="an evacuation"),
        pytest.param({"force_hosts": ["c"]}, id="an administrator has named the host"),
        pytest.param({"extra_specs": {"tolerance:pass": "true"}}, id="the flavor has priority"),
    ],
)
def test_who_may_pass(passing: dict[str, Any]) -> None:
    assert "c" == Stage(HOSTS, Tolerance(policy=REFUSE)).build(3, **passing)


def test_a_member_does_not_pass_by_a_word_that_is_not_true() -> None:
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    with pytest.raises(errors.NoValidHost):
        stage.build(3, restores="yes")
    with pytest.raises(errors.NoValidHost):
        stage.build(3, extra_specs={"tolerance:pass": "no"})


def test_nothing_is_added_to_a_host_whose_loss_is_not_survived() -> None:
    """Nobody has 7 free for a's guest, so a's last vcpu stays free; b, c and d survive."""
    stage = Stage({"a": [7], "b": [2], "c": [2], "d": [2]}, Tolerance(policy=REFUSE))
    assert {stage.build(1) for _guest in range(3)} <= {"b", "c", "d"}
    objection = stage.driver.admission._guard.unsafe("a")  # type: ignore[union-attr]
    assert objection is not None
    assert objection.sentence.startswith("a takes no more, as the loss of a is not survived: unsafe: ")


def test_each_node_of_a_host_keeps_room_of_its_own() -> None:
    """The loss of b, with both of its nodes, needs 7 of c; that of a needs 5 of the second node of b."""
    stage = Stage({"a": [5], "b/1": [7], "b/2": [], "c": [1]}, Tolerance(policy=REFUSE))
    guard = stage.driver.admission._guard
    assert guard is not None
    assert [7, 0, 5] == [guard.kept(node)[0] for node in (("c", "c"), ("b", "1"), ("b", "2"))]
    assert "b/2" == stage.build(1)  # with a place on a


def test_a_full_node_does_not_bar_the_other_nodes_of_its_host() -> None:
    """The scheduler prefers b/1, where 6 of 8 are kept for a's guest; b/2 has 7 free, and c has a place for 3 of b."""
    stage = Stage({"a": [6], "b/1": [], "b/2": [1], "c": [4]}, Tolerance(policy=REFUSE))
    guard = stage.driver.admission._guard
    assert guard is not None
    assert 6 == guard.kept(("b", "1"))[0]
    assert "b/2" == stage.build(3)


def test_without_a_promise_nothing_is_asked() -> None:
    stage = Stage(HOSTS)
    assert "c" == stage.build(8)


def test_a_promise_that_is_taken_back_binds_no_more() -> None:
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    refused(stage, 3)
    stage.promises.clear()
    stage.prover.prove()
    assert "c" == stage.build(3)


def test_builds_after_a_proof_stay_in_the_plans_of_the_next() -> None:
    """The next proof has read the database before the builds were there."""
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    assert "c" == stage.build(2)
    stage.prover._follower, stage.prover._rests_until = None, 0.0
    stage.prover.prove()
    assert stage.build(2) in ("a", "b")
    refused(stage, 2)


def test_too_many_combinations_are_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.objects.tolerance.MOST_LOSSES", 2)
    assert "more combinations may be lost than can be looked at" in refused(Stage(HOSTS, Tolerance(policy=REFUSE)), 1)


def test_figures_of_the_newest_proof() -> None:
    """In gauges, and in what the doctor asks for; without a promise there are none."""
    stage = Stage({"a": [7], "b": [4], "c": [4]}, Tolerance())
    proved = {
        "safe": 2,
        "unsafe": 1,
        "not proved": 0,
        "unprotected guests": 1,
        "guests without a place": [uuid(1)],
        "hosts without a proof": [],
        "age": 0,
    }
    assert proved == stage.driver.describe_filters()["promises"]
    found = {name: metrics.TOLERANCE_LOSSES.labels(name)._value.get() for name in ("safe", "unsafe", "not proved")}
    assert {"safe": 2.0, "unsafe": 1.0, "not proved": 0.0} == found
    assert 1.0 == metrics.TOLERANCE_UNPROTECTED._value.get()
    stage.promises.clear()
    stage.prover.prove()
    assert stage.driver.describe_filters()["promises"] is None


def survives(guests: dict[str, list[int]], lost: Sequence[str]) -> bool:
    """Whether some arrangement of the lost guests exists, by trying all: no code of the scheduler."""
    gone = [key for key in guests if key.partition("/")[0] in lost]
    homeless = sorted((size for key in gone for size in guests[key]), reverse=True)
    free = [SIZE - sum(sizes) for key, sizes in guests.items() if key not in gone]

    def place(left: list[int], room: tuple[int, ...]) -> bool:
        if not left:
            return True
        first, rest = left[0], left[1:]
        tried = set()
        for number, amount in enumerate(room):
            if amount >= first and amount not in tried:
                tried.add(amount)
                if place(rest, (*room[:number], amount - first, *room[number + 1 :])):
                    return True
        return False

    return place(homeless, tuple(free))


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_what_is_admitted_is_survived(seed: int, nodes: int) -> None:
    """After every build each loss that was survived before is survived still, by a search that is not the scheduler's.

    A host that is lost takes all of its nodes with it.
    """
    chance = random.Random(seed)
    names = [f"h{number}" for number in range(chance.randint(3, 5))]
    keys = [name if nodes == 1 else f"{name}/{number}" for name in names for number in range(nodes)]
    hosts = {key: [chance.randint(1, 4) for _guest in range(chance.randint(0, 2))] for key in keys}
    stage = Stage(hosts, Tolerance(policy=REFUSE))
    safe = [host for host in names if survives(stage.guests, [host])]
    placed = 0
    for _build in range(12):
        try:
            stage.build(chance.randint(1, 4))
            placed += 1
        except errors.NoValidHost:
            continue
        broken = [host for host in safe if not survives(stage.guests, [host])]
        assert [] == broken, f"{placed} builds: {stage.guests}"


def test_the_search_tells_them_apart() -> None:
    """Without the promise the same builds break it in most fleets: the test above can fail."""
    broken = 0
    for seed in range(20):
        chance = random.Random(seed)
        hosts = {f"h{number}": [chance.randint(1, 4)] for number in range(3)}
        stage = Stage(hosts)
        for _build in range(12):
            try:
                stage.build(chance.randint(1, 4))
            except errors.NoValidHost:
                continue
        broken += any(not survives(stage.guests, [host]) for host in hosts)
    assert broken > 10


@pytest.mark.parametrize(("promises", "alternates"), [((), ["d"]), ((Tolerance(policy=REFUSE),), [])])
def test_alternates_keep_the_promise_too(promises: Sequence[Tolerance], alternates: list[str]) -> None:
    """An agent that refuses the pick hands it to an alternate, and asks nobody. c is kept for a's guest or b's."""
    stage = Stage({"a": [6], "b": [6], "c": [], "d": [5]}, *promises)
    (selection,) = stage.driver.select_destinations(None, RequestSpec.from_wire(spec(uuid(900), 3), {}))
    assert alternates == [each.host for each in selection.alternates]


@pytest.mark.parametrize(("is_adopted", "host"), [(False, "c"), (True, "a")])
def test_what_another_scheduler_books_gets_its_place(is_adopted: bool, host: str) -> None:
    """c keeps 4 of 8 for a's guest or b's. With 2 more on b it keeps 6, so a guest of 4 goes elsewhere."""
    stage = Stage({"a": [4], "b": [4], "c": []}, Tolerance(policy=REFUSE))
    stage.driver.host_manager.refresh()
    amounts = Consumption({"vcpus_used": 2, "free_ram_mb": -2048})
    booking = Booking(uuid(950), ("b", "b"), amounts, NOW.timestamp() + 60, TrackedInstance(uuid(950), "b"), told=True)
    booked = stage.driver.host_manager.hint_bookings(lambda _expires_at: [booking])
    if is_adopted:
        stage.driver.note_bookings([*booked, *booked])
    assert host == stage.build(4)


def test_an_instance_that_never_comes_gives_its_room_back() -> None:
    """Its build has failed after the scheduler had chosen c: proofs do not see it, and its booking ends."""
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    began_s, now = NOW.timestamp(), [0.0]
    stage.driver.host_manager.elapsed_s = lambda: began_s + now[0]
    assert "c" == stage.build(2)
    waiting = []
    for now[0] in (1.0, stage.driver.conf.scheduler_booking_timeout + 1.0):
        stage.prover._follower, stage.prover._rests_until = None, 0.0
        stage.prover.prove()
        waiting.append(len(list(stage.driver.admission._admitted)))
    assert [1, 0] == waiting


def test_a_host_that_has_gone_since_the_decision_is_left_to_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    monkeypatch.setattr(stage.driver.admission._fleet, "free", lambda hosts: {})
    assert "c" == stage.build(3)


def test_a_request_that_is_refused_leaves_the_plans_as_they_were() -> None:
    """c takes the first of four instances, and the others find no place that keeps the promise."""
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    guard = stage.driver.admission._guard
    assert guard is not None
    before = {node: guard.kept(node) for node in guard.keeping}
    asked = spec(uuid(950), 2) | {"num_instances": 4, "instance_uuids": [uuid(950 + number) for number in range(4)]}
    with pytest.raises(errors.NoValidHost):
        stage.driver.select_destinations(None, RequestSpec.from_wire(asked, {}))
    assert before == {node: guard.kept(node) for node in guard.keeping}


def test_other_filters_after_sighup_are_those_of_the_proofs() -> None:
    """Also in a fleet where nothing else changes."""
    stage = Stage(HOSTS, Tolerance(policy=REFUSE))
    report = stage.driver.admission.report
    found = report.answer()
    assert found is not None
    assert 0 == found["unsafe"]
    chosen = [*stage.conf.scheduler_default_filters, "IsolatedHostsFilter"]
    stage.conf.set_override("scheduler_default_filters", chosen)
    stage.conf.set_override("isolated_hosts", list(HOSTS))
    stage.driver._decider._reload({"an option": ("before", "now")})
    stage.prover.prove()
    found = report.answer()
    assert found is not None
    assert 2 == found["unsafe"]


def test_a_host_is_kept_for_members_of_a_group_from_their_own() -> None:
    """Only c has room for the guest of a, which would not pass beside another member. A guest of no group may go there."""
    hosts: dict[str, list[int]] = {"a": [6], "c": [], "d": [5]}
    stage = Stage(hosts, Tolerance(policy=REFUSE), groups=[[uuid(1)]])
    assert "d" == member(stage, uuid(1))
    assert "c" == Stage(hosts, Tolerance(policy=REFUSE), groups=[[uuid(1)]]).build(2)


def test_two_members_get_no_place_together() -> None:
    """A rack is lost with both: each needs a host of its own outside of it, and there is one, with room for both."""
    racks = [aggregate(["a", "b"], 1, rack="r1")]
    hosts: dict[str, list[int]] = {"a": [2], "b": [], "e": [3]}
    promise = Tolerance(label="rack", policy=REFUSE)
    stage = Stage(hosts, promise, aggregates=racks, groups=[[uuid(1)]])
    with pytest.raises(errors.NoValidHost, match="would find no other host if"):
        member(stage, uuid(1))
    assert "b" == Stage(hosts, promise, aggregates=racks, groups=[[uuid(1)]]).build(2)


def joining(
    stage: Stage, policy: str, new: Sequence[str], placed: Mapping[str, str] = types.MappingProxyType({}), size: int = 2
) -> list[str]:
    """Return the hosts of new members, which one request asks for. :param placed: hosts of the other members"""
    asked = spec(new[0], size) | {"num_instances": len(new), "instance_uuids": list(new)}
    asked["instance_type"]["extra_specs"] = {}
    group = {"group_uuid": uuid(800), "group_policies": [policy], "group_members": [*new, *placed]}
    group |= {"group_hosts": sorted(set(placed.values())), "group_places": [list(pair) for pair in placed.items()]}
    selections = stage.driver.select_destinations(None, RequestSpec.from_wire(asked, group))
    return [each.host for each in selections]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("a", "c", "are_placed"), [(7, 7, False), (6, 8, True)])
def test_members_that_stay_together_have_their_place_together(at_once: bool, a: int, c: int, are_placed: bool) -> None:
    """Their lost host binds them no more. One of the others must have room for both: one each on a and c is no place."""
    scope = aggregate(["b"], 1)
    hosts: dict[str, list[int]] = {"a": [a], "b": [], "c": [c]}
    promise = Tolerance(kind="aggregate", name=scope.name, policy=REFUSE)
    stage, new = Stage(hosts, promise, aggregates=[scope]), [uuid(900), uuid(901)]
    placed = {uuid(700): "b"}

    def ask(names: Sequence[str]) -> None:
        assert ["b"] * len(names) == joining(stage, "affinity", names, placed, size=1)
        placed.update(dict.fromkeys(names, "b"))

    if not at_once:
        ask(new[:1])
    asked = new if at_once else new[1:]
    if are_placed:
        ask(asked)
    else:
        with pytest.raises(errors.NoValidHost, match="would find no other host if"):
            ask(asked)


def test_members_apart_of_one_request_are_judged_one_by_one() -> None:
    """If the second rack is lost, the host of the first member is no place for the other one."""
    racks = [aggregate(["a"], 1, rack="r1"), aggregate(["b", "d"], 2, rack="r2")]
    stage = Stage({"a": [], "b": [], "d": []}, Tolerance(label="rack", policy=REFUSE), aggregates=racks)
    with pytest.raises(errors.NoValidHost, match="would find no other host if"):
        joining(stage, "anti-affinity", [uuid(900), uuid(901)])
