# SPDX-License-Identifier: Apache-2.0
"""Each check is shown a violation that it must find."""

from __future__ import annotations

import datetime

import pytest

from tests.invariants import moment, rest
from tests.invariants.ledger import Ledger
from tests.unit.invariants.builders import NOW, address, attempt, instance, ledger, network, node, plugged

LONG_AGO = NOW - datetime.timedelta(hours=1)
GROUP = {"g": {"name": "group", "policy": "anti-affinity", "max_server_per_host": 1}}
ON_TWO = [node("a1"), node("a2")]
#: Columns of a build whose host may still have the guest.
GIVEN_UP = {"host": None, "vm_state": "error", "details": '{"guest_on": "a1"}'}

WRONG_AT_A_MOMENT = [
    ("I1", "more memory sold than there is", ledger(nodes=[node(memory_mb_used=1024 + 9217)])),
    ("I1", "more claimed than the usage says", ledger(instance(claimed_vcpus=9))),
    ("I2", "on a node that does not exist", ledger(instance(host="a9"))),
    ("I2", "active on no host", ledger(instance(host=None), nodes=[])),
    (
        "I3",
        "building past its deadline",
        ledger(instance(vm_state="building", task_state="spawning", deadline=LONG_AGO)),
    ),
    ("I3", "in ERROR without a fault", ledger(instance(host=None, vm_state="error"))),
    ("I3", "in a state that does not exist", ledger(instance(task_state="spawning"))),
    ("I4", "deleted and still holding", ledger(instance(deleted=True, vm_state="deleted"))),
    ("I4", "waiting for a host and holding memory", ledger(instance(vm_state="building", task_state="scheduling"))),
    ("I5", "usage that nobody claims", ledger(nodes=[node(vcpus_used=2)])),
    ("I6", "an attempt too many", ledger(instance(attempt=4))),
    ("I6", "an attempt that ended twice", ledger(events={"u1": [attempt(1, "a1"), attempt(1, "a2")]})),
    ("I7", "tried on one host twice", ledger(events={"u1": [attempt(1, "a1"), attempt(2, "a1")]})),
    ("I7", "on a host that its request ignores", ledger(requests={"r1": {"spec": {"ignore_hosts": ["a1"]}}})),
    ("I7", "elsewhere than asked", ledger(requests={"r1": {"spec": {"scheduler_hints": {"requested_host": "b1"}}}})),
    ("I7", "larger than its host", ledger(instance(memory_mb=9217))),
    ("I8", "two that must not meet", ledger(instance("u1"), instance("u2"), groups=GROUP, members={"g": ["u1", "u2"]})),
    (
        "I8",
        "two that must not part",
        ledger(
            instance("u1", "a1"),
            instance("u2", "a2"),
            nodes=ON_TWO,
            groups={"g": {**GROUP["g"], "policy": "affinity"}},
            members={"g": ["u1", "u2"]},
        ),
    ),
    (
        "I17",
        "an address of two networks on one bridge that two instances have",
        ledger(
            *(plugged(), plugged("u2")),
            networks=[network(), network(uuid="n2")],
            addresses=[address(), address("u2", network_uuid="n2")],
        ),
    ),
    (
        "I17",
        "an address of an instance that is gone",
        ledger(instance(host=None, vm_state="deleted", deleted=True), networks=[network()], addresses=[address()]),
    ),
    (
        "I17",
        "an address of a build that has failed",
        ledger(plugged(host=None, vm_state="error"), networks=[network()], addresses=[address()]),
    ),
    ("I17", "an address that the row does not show", ledger(networks=[network()], addresses=[address()])),
    ("I17", "an address that is not claimed", ledger(plugged(), networks=[network()])),
    (
        "I17",
        "an address outside of its network",
        ledger(plugged(), networks=[network(subnet="10.0.1.0/24")], addresses=[address()]),
    ),
]


@pytest.mark.parametrize(
    "instances",
    [(plugged(), plugged("u2", 11)), (plugged(), plugged("u2", 11, **GIVEN_UP))],
    ids=["of guests", "of a guest that a host may still have"],
)
def test_an_address_that_is_right(instances: tuple[dict, dict]) -> None:
    right = ledger(*instances, networks=[network()], addresses=[address(), address("u2", 11)])
    assert [] == [line for filed, check in moment.CHECKS if filed == "I17" for line in check(right)]


@pytest.mark.parametrize(
    ("number", "what", "wrong"), WRONG_AT_A_MOMENT, ids=[f"{case[0]}: {case[1]}" for case in WRONG_AT_A_MOMENT]
)
def test_what_is_wrong_is_found(number: str, what: str, wrong: Ledger) -> None:
    """By the check of its invariant; whether others find something, too, does not matter."""
    assert [line for filed, check in moment.CHECKS if filed == number for line in check(wrong)]


def test_a_sound_ledger_is_found_sound() -> None:
    """Otherwise the table above would prove nothing."""
    assert [] == [line for _number, check in moment.CHECKS for line in check(ledger())]


def view(**changed: object) -> dict:
    used = {"memory_mb": 2048, "disk_gb": 10, "vcpus": 1}
    return {"nodes": [{"node": "a1", "used": used, "instances": ["u1"]}], "guests": ["u1"], **changed}


def test_a_guest_in_the_wrong_place_is_found() -> None:
    """One too many, and one too few."""
    wrong = list(rest.guests_are_where_the_ledger_says(ledger(), {"a1": {"u9": {}}}))
    assert ["a1: the driver runs u9, which the ledger has not there"] == wrong[:1]
    assert ["a1: the driver does not run u1, which the ledger has there"] == wrong[1:]
    assert [] == list(rest.guests_are_where_the_ledger_says(ledger(), {"a1": {"u1": {}}}))


def test_a_guest_that_was_not_removed_is_found() -> None:
    """No host may still have the guest of a failed build when nothing moves, whether the guest exists or not."""
    wrong = rest.guests_are_where_the_ledger_says(ledger(instance(**GIVEN_UP)), {})
    assert ["a1: may still have a guest of u1, which is error"] == list(wrong)


def test_a_row_that_does_not_show_what_became_of_its_guest_is_found() -> None:
    """I12. An instance with a task is not judged. A guest that the row reports as gone need not exist."""
    running, crashed = {"a1": {"u1": {"power_state": 1}}}, {"a1": {"u1": {"power_state": 6}}}
    assert [] == list(rest.power_states_agree(ledger(), running))
    assert ["u1 on a1: power state 1 in its row, 6 by the driver"] == list(rest.power_states_agree(ledger(), crashed))
    assert ["u1 on a1: power state 1 in its row, 0 by the driver"] == list(rest.power_states_agree(ledger(), {}))
    assert [] == list(rest.power_states_agree(ledger(instance(task_state="deleting")), crashed))
    gone = ledger(instance(power_state=0))
    assert [] == [*rest.power_states_agree(gone, {}), *rest.guests_are_where_the_ledger_says(gone, {})]


def test_an_agent_of_another_opinion_is_found() -> None:
    """Its count, its guests, its silence."""
    guests = {"a1": {"u1": {}}}
    assert [] == list(rest.agents_agree(ledger(), {"a1": view()}, guests))
    assert ["a1: its agent does not answer"] == list(rest.agents_agree(ledger(), {}, guests))
    assert ["a1: the agent lists other guests than its driver has on record"] == list(
        rest.agents_agree(ledger(), {"a1": view(guests=[])}, guests)
    )
    counted = list(rest.agents_agree(ledger(nodes=[node(vcpus_used=2)]), {"a1": view()}, guests))
    assert ["a1: the agent counts 1 of vcpus, the ledger 2"] == counted


def test_a_scheduler_of_another_opinion_is_found() -> None:
    """8 GB are free: room for eight."""
    assert [] == list(rest.the_scheduler_agrees(ledger(), {"fits": 8}))
    assert 1 == len(list(rest.the_scheduler_agrees(ledger(), {"fits": 7})))


def test_what_is_left_after_everything_was_deleted_is_found() -> None:
    """By the ledger, by the agent and by the driver."""
    wrong = list(rest.nothing_is_used(ledger(), {"a1": view()}, {"a1": {"u1": {}}}))
    assert 6 == len(wrong)
