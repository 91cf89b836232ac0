# SPDX-License-Identifier: Apache-2.0
"""The scheduler's answer of where the guests of a lost host would go."""

from __future__ import annotations

import collections
from typing import Any

import pytest
from oslo_messaging.rpc import dispatcher

from fleet import errors
from fleet.context import new_context
from scheduler.compute.manager import SchedulerManager
from scheduler.compute.planning import survival
from tests.factories import uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_rebalance import FilledHosts


def asked(fleet: FilledHosts) -> list[dict[str, Any]]:
    found = ((name, fleet.request_of(name)) for name in fleet.sizes)
    return [
        {"uuid": name, "request_spec": each.request_spec, "filter_properties": each.filter_properties}
        for name, each in found
    ]


def manager(fleet: FilledHosts) -> SchedulerManager:
    def plan(hosts: Any, requests: Any) -> dict[str, Any]:
        return survival.answer(configuration(), lambda: fleet.state, hosts, requests)

    return SchedulerManager(None, plan=plan)  # type: ignore[arg-type]


def refusal(manager: SchedulerManager, requests: list[Any]) -> type[BaseException]:
    """Return the class of the error that the caller gets."""
    with pytest.raises(dispatcher.ExpectedException) as refused:
        manager.plan_loss(new_context(), hosts=["a"], requests=requests)
    found: type[BaseException] = refused.value.exc_info[0]
    return found


def test_a_plan() -> None:
    fleet = FilledHosts({"a": [3, 3], "b": [4], "c": [5]})
    answer = manager(fleet).plan_loss(new_context(), hosts=["a"], requests=asked(fleet))
    assert ("safe", {uuid(1): {"b", "c"}, uuid(2): {"b", "c"}}) == (
        answer["verdict"],
        dict.fromkeys(answer["plan"], set(answer["plan"].values())),
    )


def test_a_plan_spreads_guests_where_it_can() -> None:
    """More guests than hosts: the weighers have them on both, where the tightest fit would fill one."""
    fleet = FilledHosts({"a": [1, 1, 1, 1], "b": [], "c": []})
    plan = manager(fleet).plan_loss(new_context(), hosts=["a"], requests=asked(fleet))["plan"]
    assert {"b": 2, "c": 2} == collections.Counter(plan.values())


def test_a_plan_packs_guests_where_it_must() -> None:
    """Spread over b and c, the small ones would leave no room for the large one."""
    fleet = FilledHosts({"a": [6, 1, 1], "b": [2], "c": [6]})
    plan = manager(fleet).plan_loss(new_context(), hosts=["a"], requests=asked(fleet))["plan"]
    assert {uuid(1): "b", uuid(2): "c", uuid(3): "c"} == plan


def test_a_plan_of_large_requests() -> None:
    """The requests of all guests are in one message, and each names the hosts that its guest cannot reach."""
    fleet = FilledHosts({"a": [3, 3], "b": [4], "c": [5]})
    elsewhere = [f"compute-{number:05}.example.org" for number in range(10_000)]
    fleet.properties = {name: {"ignore_hosts": elsewhere} for name in fleet.sizes}
    answer = manager(fleet).plan_loss(new_context(), hosts=["a"], requests=asked(fleet))
    assert ("safe", 2) == (answer["verdict"], len(answer["plan"]))


def test_guests_that_are_not_evacuated_need_no_place() -> None:
    """One that waits for the end of its resize fits nowhere else, and is no part of the plan. The others have one."""
    fleet = FilledHosts({"a": [6, 3], "b": [4], "c": [5]})
    moved = [each for each in asked(fleet) if each["uuid"] != uuid(1)]
    answer = manager(fleet).plan_loss(new_context(), hosts=["a"], requests=moved)
    assert ("safe", [uuid(2)]) == (answer["verdict"], list(answer["plan"]))


def test_no_plan() -> None:
    fleet = FilledHosts({"a": [6], "b": [4]})
    answer = manager(fleet).plan_loss(new_context(), hosts=["a"], requests=asked(fleet))
    assert ("unsafe", {}) == (answer["verdict"], answer["plan"])


@pytest.mark.parametrize(
    "requests", [[None], [{}], [{"uuid": "x"}], [{"uuid": uuid(1)}], [{"uuid": uuid(1), "request_spec": 7}]]
)
def test_what_is_no_request_of_an_instance(requests: list[Any]) -> None:
    fleet = FilledHosts({"a": [6], "b": [4]})
    assert errors.InvalidInput is refusal(manager(fleet), requests)


def test_a_scheduler_that_does_not_plan() -> None:
    assert errors.NotSupported is refusal(SchedulerManager(None), [])  # type: ignore[arg-type]
