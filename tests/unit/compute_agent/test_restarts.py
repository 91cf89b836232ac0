# SPDX-License-Identifier: Apache-2.0
"""How often a guest that keeps dying is started again."""

from __future__ import annotations

from compute_agent.work.restarts import Restarts
from fleet.objects.guest_restarts import Next, RestartLimits


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def starts(restarts: Restarts, clock: Clock, until: float, every: float = 1.0) -> list[float]:
    """When the guest is started, if it is found dead each second."""
    found = []
    began = clock.now
    while clock.now - began <= until:
        if restarts.next("web") is Next.START:
            restarts.note("web")
            found.append(clock.now - began)
        clock.now += every
    return found


def test_waits_double() -> None:
    clock = Clock()
    assert [0, 10, 30, 70, 150] == starts(Restarts(RestartLimits(wait_s=10), clock), clock, 200)


def test_the_limit_ends_it_and_time_begins_it_anew() -> None:
    clock = Clock()
    restarts = Restarts(RestartLimits(most=3, window_s=100, wait_s=1), clock)
    assert [0, 1, 3] == starts(restarts, clock, 50)
    assert (Next.GIVE_UP, 3) == (restarts.next("web"), restarts.count("web"))
    clock.now += 51  # the first two are older than the window
    assert (Next.START, 1) == (restarts.next("web"), restarts.count("web"))


def test_guests_are_counted_apart() -> None:
    clock = Clock()
    restarts = Restarts(RestartLimits(most=1), clock)
    restarts.note("web")
    assert (Next.GIVE_UP, Next.START) == (restarts.next("web"), restarts.next("db"))


def test_without_a_wait_each_audit_starts_it() -> None:
    clock = Clock()
    assert 51 == len(starts(Restarts(RestartLimits(wait_s=0), clock), clock, 50))


def test_a_guest_that_dies_for_years_needs_no_more_memory() -> None:
    clock = Clock()
    restarts = Restarts(RestartLimits(window_s=10**300, wait_s=0), clock)
    for _ in range(5000):
        restarts.note("web")
    assert (64, Next.START) == (restarts.count("web"), restarts.next("web"))
