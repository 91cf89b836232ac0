# SPDX-License-Identifier: Apache-2.0
"""Rounds of balancing: few moves, of hosts that have been hot for their time, each of which helps."""

from __future__ import annotations

import dataclasses
import datetime
import types
from typing import Any

import pytest

from conductor_stub.balance.deciding import Guest, Host, Round, decide
from conductor_stub.steps.balance_settings import BalanceSettings

NOW = datetime.datetime(2026, 1, 1, 12, 0, 0)
LONG_AGO = NOW - datetime.timedelta(hours=1)
#: Hosts of 10 cores and 100 GiB.
GIB = 1024


def host(name: str, cpu: float, memory: float = 0.2, **more: Any) -> Host:
    free = {"vcpus_free": 20.0, "memory_free_mb": (1 - memory) * 100 * GIB, **more}
    return Host(name, cpu, memory, cores=10.0, memory_mb=100.0 * GIB, **free)


def guest(name: str, where: str, cores: float, gib: int = 4, **more: Any) -> Guest:
    more = {"takers": frozenset("abcd"), **more}
    return Guest(name, name, where, vcpus=2, memory_mb=gib * GIB, disk_gb=0, cores=cores, pressing_mb=gib * GIB, **more)


def plan(
    hosts: list[Host], guests: list[Guest], since: datetime.datetime = LONG_AGO, refused: str = "", **options: Any
) -> Round:
    settings = BalanceSettings(**{"least_cpu_load": 40, **options})
    hot = {each.name: since for each in hosts}
    return decide(
        hosts, guests, hot, settings, NOW, lambda _guest, there: "the filters refuse" if there == refused else ""
    )


def pairs(found: Round) -> list[tuple[str, str]]:
    return [(each.guest.uuid, each.destination) for each in found.moves]


HOT = [guest("small", "a", 1.0), guest("large", "a", 3.0), guest("rest", "a", 5.0)]


def test_a_hot_host_is_relieved_and_the_state_after_is_predicted() -> None:
    """a has 90, b 30 and c 30: the mean is 50. The guest of 3 cores goes to b: 60, 60 and 30."""
    found = plan([host("a", 0.9), host("b", 0.3), host("c", 0.3)], HOT)
    assert [("large", "b")] == pairs(found)
    assert (50.0, 40.0, 10.0) == tuple(round(each, 6) for each in (found.mean, found.before, found.expected))
    assert (30.0, {}) == (round(found.moves[0].gain, 6), dict(found.not_done))


def test_hosts_that_take_no_guests_are_no_measure_for_the_others() -> None:
    """a has 80 and b 40, c and d are out of use and empty: the mean is 60, not 30. b may take a guest and have 60 then."""
    out_of_use = [host(name, 0.0, memory=0.0, takes=False) for name in ("c", "d")]
    found = plan([host("a", 0.8), host("b", 0.4), *out_of_use], [guest("one", "a", 2.0)])
    assert ([("one", "b")], 60.0) == (pairs(found), round(found.mean, 6))
    assert (20.0, 0.0) == (round(found.before, 6), round(found.expected, 6))


def test_a_host_out_of_use_is_relieved() -> None:
    """If no host takes guests, the mean is that of all."""
    found = plan([host("a", 0.8, takes=False), host("b", 0.4)], [guest("one", "a", 2.0)], threshold=30)
    assert ([("one", "b")], 40.0) == (pairs(found), round(found.mean, 6))
    alone = plan([host("a", 0.8, takes=False), host("b", 0.4, takes=False)], [guest("one", "a", 2.0)])
    assert ([], 60.0) == (pairs(alone), round(alone.mean, 6))


def test_hosts_whose_guests_have_changed_wait_until_they_are_measured() -> None:
    """What is known of c does not contain the guest that has come, so it may not be what it seems; nor may a."""
    later = NOW + datetime.timedelta(seconds=90)
    hosts = [host("a", 0.9), host("b", 0.4), host("c", 0.1, known_at=later), host("d", 0.3, known_at=NOW)]
    assert {"d"} == {destination for _guest, destination in pairs(plan(hosts, HOT))}
    found = plan([host("a", 0.9, known_at=later), *hosts[1:]], HOT)
    assert ([], {"a": "its guests have changed: its load is known from 12:01:30 UTC on"}) == (
        pairs(found), dict(found.not_done))  # fmt: skip
    assert {"a"} == found.waiting


def test_one_member_of_a_group_moves_in_a_round() -> None:
    """Each may go to d as long as the other is not there."""
    hosts = [host("a", 0.9), host("b", 0.9), host("c", 0.4), host("d", 0.3)]
    apart = [guest("one", "a", 3.0, group="g"), guest("two", "b", 3.0, group="g")]
    found = plan(hosts, apart)
    assert [("one", "d")] == pairs(found)
    assert "two is in a group of which another member moves in this round" == found.not_done["b"]
    alone = [dataclasses.replace(each, group=each.name) for each in apart]
    assert [("one", "d"), ("two", "c")] == pairs(plan(hosts, alone))


def test_a_balanced_fleet_gets_no_moves() -> None:
    """Also one whose hosts differ by less than the threshold, and one where nobody is busy."""
    for loads in ((0.6, 0.6, 0.6), (0.65, 0.55, 0.6), (0.35, 0.0, 0.0)):
        found = plan([host(name, cpu, memory=0.0) for name, cpu in zip("abc", loads, strict=True)], HOT)
        assert ([], {}) == (pairs(found), dict(found.hot_since))


LEAST = [
    ("processors that are measured are not busy at 69", host("a", 0.69), []),
    ("at 71 they are", host("a", 0.71), [("one", "b")]),
    ("with 41 of 100 parts of the time, work waits for memory", host("a", 0.2, memory=0.41), [("one", "b")]),
    ("with 39 it does so too seldom", host("a", 0.2, memory=0.39), []),
    ("vcpus that are allocated count from 41 on", host("a", 0.41, vcpus=10.0), [("one", "b")]),
    ("and not at 39", host("a", 0.39, vcpus=10.0), []),
]


@pytest.mark.parametrize(("name", "loaded", "moves"), LEAST, ids=[each[0] for each in LEAST])
def test_below_its_least_load_a_host_is_not_hot(name: str, loaded: Host, moves: list[tuple[str, str]]) -> None:
    """The other host is idle; the guest has 10 points of each load."""
    moving = [guest("one", "a", 1.0, gib=10)]
    found = plan([loaded, host("b", 0.0, memory=0.0, vcpus=loaded.vcpus)], moving, threshold=10, least_cpu_load=70)
    assert moves == pairs(found)
    assert ({"a"} if moves else set()) == set(found.hot_since)


def test_a_new_host_of_a_guest_stays_below_its_own_least_load() -> None:
    """On b work would wait for memory for 42 parts of the time; its processors would not be busy."""
    hosts = [host("a", 0.75), host("b", 0.1, memory=0.22), host("c", 0.25, memory=0.0)]
    found = plan(hosts, [guest("one", "a", 2.0, gib=20)], threshold=1, least_cpu_load=70)
    assert [("one", "c")] == pairs(found)


def test_the_least_load_holds_for_processors_too() -> None:
    hosts = [host("a", 0.78), host("b", 0.0, memory=0.0)]
    assert [] == pairs(plan(hosts, [guest("one", "a", 2.0)], threshold=10, least_load=80))


BUSY = [
    ("among busy hosts it is hot above 75", [0.79, 0.66, 0.62], {}, [("one", "c")]),
    ("and not below", [0.74, 0.66, 0.62], {}, []),
    ("not among hosts that are as busy", [0.79, 0.77, 0.75], {}, []),
    ("not if only the threshold counts", [0.79, 0.66, 0.62], {"most_cpu_load": 200}, []),
    ("not below the least load", [0.79, 0.66, 0.62], {"least_load": 80}, []),
    ("the threshold may be below it", [0.74, 0.5, 0.44], {}, [("one", "c")]),
]


@pytest.mark.parametrize(("name", "loads", "options", "moves"), BUSY, ids=[each[0] for each in BUSY])
def test_a_host_whose_processors_are_too_busy(
    name: str, loads: list[float], options: dict[str, Any], moves: list[tuple[str, str]]
) -> None:
    """The default threshold is 12 points, the margin 3. The guest has 8 points."""
    hosts = [host(name, load, memory=0.0) for name, load in zip("abc", loads, strict=True)]
    assert moves == pairs(plan(hosts, [guest("one", "a", 0.8)], least_cpu_load=70, **options))
    sold = [dataclasses.replace(each, vcpus=10.0) for each in hosts]
    assert ([("one", "c")] if loads[0] - sum(loads) / 3 > 0.12 else []) == pairs(
        plan(sold, [guest("one", "a", 0.8)], **options)
    )


def test_a_host_is_relieved_of_what_makes_it_hot() -> None:
    """Its processors are busier than its memory is short, but only the memory is above its least load: "large" moves."""
    hosts = [host("a", 0.65, memory=0.45), host("b", 0.1, memory=0.0)]
    busy, large = guest("busy", "a", 5.0, gib=1), guest("large", "a", 0.5, gib=20)
    found = plan(hosts, [busy, large], threshold=2, least_cpu_load=70)
    assert ([("large", "b")], 20.0) == (pairs(found), round(found.moves[0].gain, 6))


def test_what_makes_a_host_hot_is_relieved_though_the_rest_is_nearly_so() -> None:
    """The processors of a are 1 point above their least load, its memory is 1 point below its own."""
    hosts = [host("a", 0.71, memory=0.39), host("b", 0.1, memory=0.0)]
    found = plan(hosts, [guest("one", "a", 2.0, gib=1)], least_cpu_load=70)
    assert ([("one", "b")], 20.0) == (pairs(found), round(found.moves[0].gain, 6))


@pytest.mark.parametrize(("cpu", "moves"), [(0.58, []), (0.48, [("one", "b")])])
def test_no_move_makes_the_more_loaded_of_two_hosts_more_so(cpu: float, moves: list[tuple[str, str]]) -> None:
    """a has 60. With 68 points b would not be hot, but more loaded than either is now. c takes no running guest."""
    hosts = [host("a", 0.1, memory=0.6, vcpus=10.0), host("b", cpu, memory=0.0), host("c", 0.0, memory=0.0)]
    found = plan(hosts, [guest("one", "a", 1.0, gib=10, takers=frozenset("b"))], least_cpu_load=70)
    assert (moves, {"a"}) == (pairs(found), set(found.hot_since))


def test_the_host_that_is_most_above_its_bounds_comes_first() -> None:
    """One move is left to the round. The processors of a are busier, but only 2 points above their least load."""
    hosts = [host("a", 0.72, memory=0.0), host("b", 0.1, memory=0.65), host("c", 0.0, memory=0.0)]
    guests = [guest("of-a", "a", 1.0), guest("of-b", "b", 0.1, gib=20)]
    assert [("of-b", "c")] == pairs(plan(hosts, guests, most_moves=1, least_cpu_load=70))


def test_each_setting_is_that_of_its_option() -> None:
    values = {field.name: 1.5 + number for number, field in enumerate(dataclasses.fields(BalanceSettings))}
    options = {name.removesuffix("_s"): value for name, value in values.items()}
    read: Any = {"balance": types.SimpleNamespace(**options)}
    assert values == dataclasses.asdict(BalanceSettings.from_conf(read))


def test_a_peak_is_waited_out() -> None:
    """The host must be hot for its time; it counts from the first look that saw it hot."""
    hosts = [host("a", 0.9), host("b", 0.3)]
    found = plan(hosts, HOT, since=NOW - datetime.timedelta(seconds=599))
    assert ([], ["a"]) == (pairs(found), list(found.not_done))
    assert "hot since 11:50:01 UTC" in found.not_done["a"]
    new = decide(hosts, HOT, {}, BalanceSettings(), NOW, lambda _guest, _host: "")
    assert ([], {"a": NOW}) == (pairs(new), dict(new.hot_since))


CASES = [
    (
        "a cooldown",
        [guest("g", "a", 5.0, stays="has moved within its cooldown")],
        {},
        "g has moved within its cooldown",
    ),
    ("the filters", [guest("g", "a", 3.0)], {"refused": "b"}, "the filters refuse"),
    ("the budget", [guest("g", "a", 3.0, gib=80)], {"most_gib": 64}, "larger than the 64 GiB"),
    ("another hot host", [guest("g", "a", 8.0)], {}, "no move would make it less loaded"),
    ("less than the margin", [guest("g", "a", 0.3)], {}, "no move would make it less loaded"),
    ("no guest", [guest("g", "b", 3.0)], {}, "no guest is there"),
]


@pytest.mark.parametrize(("guests", "options", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_not_done_has_a_reason(guests: list[Guest], options: dict[str, Any], why: str) -> None:
    found = plan([host("a", 0.9), host("b", 0.3)], guests, **options)
    assert [] == pairs(found)
    assert why in found.not_done["a"]


#: 30 cool hosts beside the hot ones.
COOL = [f"cool{number:02}" for number in range(30)]
ANYWHERE = {"takers": frozenset(COOL)}


def test_a_guest_that_no_host_takes_does_not_hold_up_the_others() -> None:
    """The guest whose move would help most is refused wherever it is tried."""
    hosts = [host("a", 0.9), *(host(name, 0.1) for name in COOL)]
    guests = [guest("best", "a", 4.0, **ANYWHERE), guest("other", "a", 3.0, **ANYWHERE)]
    asked: list[tuple[str, str]] = []

    def refused(each: Guest, there: str) -> str:
        asked.append((each.uuid, there))
        return "the filters refuse" if each.uuid == "best" else ""

    found = decide(hosts, guests, {"a": LONG_AGO}, BalanceSettings(threshold=45), NOW, refused)
    assert ([("other", "cool00")], {}) == (pairs(found), dict(found.not_done))
    assert ["best"] * 3 + ["other"] == [uuid for uuid, _there in asked]
    assert len(asked) == len(set(asked))


def test_a_host_that_takes_no_guest_does_not_hold_up_the_others() -> None:
    """It is the least loaded one, so all guests would go there first."""
    hosts = [host("a", 1.2), host("b", 0.0), host("c", 0.1)]
    guests = [guest(f"g{number:02}", "a", 1.5) for number in range(30)]
    assert {"c"} == {there for _guest, there in pairs(plan(hosts, guests, refused="b"))}


def test_hosts_that_take_no_guest_are_tried_before_the_only_one_that_does() -> None:
    """The least loaded hosts refuse the only guest. All others are tried in their turn."""
    hosts = [host("a", 0.9), *(host(name, 0.1) for name in COOL)]
    found = decide(
        *(hosts, [guest("one", "a", 4.0, **ANYWHERE)], {"a": LONG_AGO}, BalanceSettings(threshold=45), NOW),
        lambda _guest, there: "" if there == "cool15" else "the filters refuse",
    )
    assert [("one", "cool15")] == pairs(found)


def test_a_hot_host_whose_guests_are_refused_does_not_hold_up_the_others() -> None:
    """Each of the first hosts has more guests that are refused than moves are tried in a round."""
    many = [guest(f"a{number:02}", "a", 3.0, **ANYWHERE) for number in range(40)]
    hosts = [host("a", 0.95), host("b", 0.9), *(host(name, 0.1) for name in COOL)]
    asked = []

    def refused(each: Guest, there: str) -> str:
        asked.append(there)
        return "the filters refuse" if each.host == "a" else ""

    found = decide(
        *(hosts, [*many, guest("one", "b", 4.0, **ANYWHERE)], dict.fromkeys("ab", LONG_AGO)),
        *(BalanceSettings(threshold=30), NOW, refused),
    )
    assert [("one", "cool00")] == pairs(found)
    assert ({"a": "too many moves are refused; the filters refuse"}, 20) == (dict(found.not_done), len(asked))


def test_what_holds_all_moves_up_is_the_reason_of_each_hot_host() -> None:
    """However many moves would help. No filter is asked."""
    hosts = [host("a", 0.95), host("b", 0.9), *(host(name, 0.1) for name in COOL)]
    guests = [guest(name, name, 4.0, **ANYWHERE) for name in "ab"]
    found = decide(
        *(hosts, guests, dict.fromkeys("ab", LONG_AGO), BalanceSettings(threshold=30), NOW),
        *(lambda _guest, _there: "never asked", "1 builds are under way"),
    )
    assert ([], dict.fromkeys("ab", "1 builds are under way")) == (pairs(found), dict(found.not_done))


def test_a_round_has_few_moves() -> None:
    guests = [guest(f"g{number}", "a", 0.8, gib=1) for number in range(10)]
    hosts = [host("a", 1.0), host("b", 0.0), host("c", 0.0)]
    found = plan(hosts, guests, most_moves=2)
    assert 2 == len(found.moves)
    assert "the round has its 2 moves" == found.not_done["a"]


def test_no_host_is_filled_above_its_memory() -> None:
    """b has 3 GiB left; a host that takes no guests is left out."""
    found = plan([host("a", 0.9), host("b", 0.3, memory_free_mb=3.0 * GIB), host("c", 0.1, takes=False)], HOT)
    assert [] == pairs(found)


def test_the_state_after_a_round_is_calm() -> None:
    """If the loads are as predicted, the next round has nothing to do: no guest goes back."""
    hosts = [host("a", 1.2), host("b", 0.2), host("c", 0.3), host("d", 0.1)]
    guests = [guest(f"g{number}", "a", 1.5, gib=1) for number in range(8)]
    found = plan(hosts, guests)
    there = {each.guest.uuid: each.destination for each in found.moves}
    after = {each.name: each for each in hosts}
    for each in found.moves:
        after[each.guest.host] = after[each.guest.host].with_guest(each.guest, -1)
        after[each.destination] = after[each.destination].with_guest(each.guest, 1)
    moved = [guest(each.uuid, there.get(each.uuid, "a"), 1.5, gib=1) for each in guests]
    assert 3 == len(found.moves)
    assert [] == [each for each in pairs(plan(list(after.values()), moved)) if each[1] == "a"]


def test_a_host_that_does_not_take_running_guests_is_no_destination() -> None:
    """b is the least loaded; the guests' host migrates to c only."""
    guests = [guest("g", "a", 3.0, takers=frozenset("c"))]
    found = plan([host("a", 0.9), host("b", 0.1), host("c", 0.3)], guests, threshold=20)
    assert [("g", "c")] == pairs(found)


def test_the_load_of_measured_guests_is_waited_for_less_long() -> None:
    """It is a mean of some minutes already. Three minutes are enough for it, and not for what may dip each minute."""
    hosts, three = [host("a", 0.9), host("b", 0.3), host("c", 0.3)], NOW - datetime.timedelta(minutes=3)
    assert [] == pairs(plan(hosts, HOT, since=three))
    smooth = [dataclasses.replace(each, smooth=True) for each in hosts]
    assert [("large", "b")] == pairs(plan(smooth, HOT, since=three))


def test_a_measured_guest_weighs_no_less_where_nothing_is_measured() -> None:
    """b has no guest, so its agent measures none, and its load is what is allocated of 160 vcpus. Two guests there would be
    the next to be hot: one goes, and the loads are 50 and 40.
    """
    guests = [guest(name, "a", 4.0, measured=True) for name in ("x", "y")]
    found = plan([host("a", 0.9), host("b", 0.0, vcpus=160.0)], guests)
    assert ([("x", "b")], 5.0) == (pairs(found), round(found.expected, 6))


def test_a_guest_that_is_not_measured_takes_what_is_allocated() -> None:
    """On a host with a limit of 20 vcpus, a guest of 2 is predicted to add a tenth, however busy it was before."""
    for vcpus, after in ((20.0, 0.4), (0.0, 0.8)):
        there = host("b", 0.3, vcpus=vcpus).with_guest(guest("x", "a", 5.0), 1)
        assert after == pytest.approx(there.cpu)


def test_an_idle_guest_takes_its_memory_where_nothing_is_measured() -> None:
    """Its own host reports no memory pressure. Without measurements, the prediction adds the memory of its flavor."""
    idle = dataclasses.replace(guest("x", "a", 3.0, gib=75, measured=True), pressing_mb=0.0)
    for vcpus, after in ((20.0, 0.95), (0.0, 0.2)):
        assert after == pytest.approx(host("b", 0.3, vcpus=vcpus).with_guest(idle, 1).memory)


def test_a_reason_that_reads_as_a_wait_is_none() -> None:
    """Reasons have names of guests, which their users choose."""
    found = plan([host("a", 0.9), host("b", 0.3)], [guest("hot since ever", "a", 5.0, stays="is locked")])
    assert (["a"], frozenset()) == (list(found.not_done), found.waiting)
    peak = plan([host("a", 0.9), host("b", 0.3)], HOT, since=NOW)
    assert frozenset("a") == peak.waiting
