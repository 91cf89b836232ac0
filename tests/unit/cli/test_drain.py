# SPDX-License-Identifier: Apache-2.0
"""``fleet host drain`` disables a host and waits for what is on its way."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import move_states, states
from fleet.client import following
from tests.clock import Time
from tests.operator_calls import Asked


class Looks(Asked):
    """A conductor whose instances and moves are, at each look, those of the next list; the last one stays."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        self._looks = list(looks)

    def ask(
        self, method: str, filters: dict[str, Any], brief: bool = False, limit: int | None = None
    ) -> list[dict[str, Any]]:
        listed = [each for each in self._looks[0] if ("dest_compute" in each) == (method == "list_migrations")]
        if method == "list_migrations":
            return [each for each in listed if _is_wanted(each, filters)]
        present = listed
        if "host" in filters and len(self._looks) > 1:
            self._looks.pop(0)
        if "uuids" in filters:
            return [each for each in present if each["uuid"] in filters["uuids"]]
        ((key, value),) = filters.items()
        return [each for each in present if each[key] == value]


def _is_wanted(move: dict[str, Any], filters: dict[str, Any]) -> bool:
    ((key, value),) = filters.items()
    if key == "uuids":
        return move["uuid"] in value
    if key == "host":
        return value in (move["source_compute"], move["dest_compute"])
    return bool(move[key] == value)


def a_move(instance: str, status: str, to: str | None, source: str = "h2", attempt: int = 1) -> dict[str, Any]:
    return {
        "uuid": f"move-{instance}",
        "instance_uuid": instance,
        "status": status,
        "attempt": attempt,
        "source_compute": source,
        "dest_compute": to,
    }


def an_instance(uuid: str, task_state: str | None, host: str | None = "h1", **values: Any) -> dict[str, Any]:
    vm_state = states.BUILDING if task_state in states.BUILD_STEPS else states.ACTIVE
    return {
        "uuid": uuid,
        "name": uuid,
        "vm_state": vm_state,
        "task_state": task_state,
        "host": host,
        "attempt": 1,
        **values,
    }


def drain(*looks: list[dict[str, Any]], moving: bool = False) -> tuple[list[str], list[tuple[int, int]]]:
    """What is left, and what was told."""
    told: list[tuple[int, int]] = []
    time = Time()
    conductor: Any = Looks(*looks)

    def tell(under_way: list[dict[str, Any]], coming: int) -> None:
        told.append((len(under_way), coming))

    left = following.drain(conductor, "h1", 60, tell, time, time.sleep, moving)
    return [each["uuid"] for each in left], told


def test_an_idle_host_is_drained_at_once() -> None:
    """Active instances stay, and builds on other hosts are no concern of this one."""
    assert ([], [(0, 0)]) == drain([an_instance("a", None), an_instance("b", states.SPAWNING, "h2")])


def test_what_is_under_way_is_waited_for() -> None:
    """Spawns and terminations there, and builds that were being placed when it was disabled: one of them arrives."""
    looks = [
        [an_instance("a", states.SPAWNING), an_instance("b", states.DELETING), an_instance("c", states.PLACING, None)],
        [an_instance("a", None), an_instance("c", states.SPAWNING)],
        [an_instance("a", None), an_instance("c", None)],
    ]
    assert ([], [(2, 1), (1, 0), (0, 0)]) == drain(*looks)


def test_a_build_that_goes_on_at_another_attempt_is_no_longer_waited_for() -> None:
    """The host was disabled when its next host was chosen."""
    before = [an_instance("c", states.PLACING, None)]
    after = [an_instance("c", states.PLACING, None, attempt=2)]
    assert ([], [(0, 1), (0, 0)]) == drain(before, after)


def test_what_remains_is_named() -> None:
    """When the time is over."""
    assert (["a"], [(1, 0)]) == drain([an_instance("a", states.SPAWNING)])


@pytest.mark.parametrize("moving", [False, True])
def test_a_guest_that_moves_to_the_host_is_waited_for(moving: bool) -> None:
    """The host must not be switched off under it."""
    guest = an_instance("a", states.MIGRATING, "h2")
    looks = [
        [guest, a_move("a", move_states.PREPARING, None)],
        [guest, a_move("a", move_states.RUNNING, "h1")],
        [an_instance("a", None), a_move("a", move_states.COMPLETED, "h1")],
    ]
    assert ([], [(0, 1), (1, 0), (0, 0)]) == drain(*looks, moving=moving)


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(a_move("a", move_states.RUNNING, "h3"), id="to another host"),
        pytest.param(a_move("a", move_states.ACCEPTED, None), id="no scheduler was asked yet"),
        pytest.param(a_move("a", move_states.FINISHED, "h1", source="h1"), id="it has left"),
    ],
)
def test_other_moves_are_not_waited_for(move: dict[str, Any]) -> None:
    assert ([], [(0, 0)]) == drain([an_instance("a", states.MIGRATING, "h2"), move])


def test_a_move_that_was_placed_elsewhere_is_no_longer_waited_for() -> None:
    guest = an_instance("a", states.MIGRATING, "h2")
    looks = [[guest, a_move("a", move_states.PREPARING, None)], [guest, a_move("a", move_states.PREPARING, "h3")]]
    assert ([], [(0, 1), (0, 0)]) == drain(*looks)
