# SPDX-License-Identifier: Apache-2.0
"""All conductors refuse a signature that one of them has accepted."""

from __future__ import annotations

from concurrent import futures

from fleet.clock import seconds, utcnow
from fleet.clock.skew import ClockSkew
from fleet.db.engine.database import Database
from fleet.db.instances.signatures import TakenSignatures
from fleet.db.upkeep.clock import LedgerClock
from tests.clock import FakeClock


def test_it_is_taken_once(database: Database) -> None:
    """Also by two conductors at the same time."""
    clock = FakeClock()
    first, second = TakenSignatures(database, clock), TakenSignatures(database, clock)
    assert (True, False, True) == (first.take("a" * 64, 600), second.take("a" * 64, 600), second.take("b" * 64, 600))
    with futures.ThreadPoolExecutor(8) as together:
        found = list(together.map(lambda number: (first, second)[number % 2].take("c" * 64, 600), range(8)))
    assert 1 == found.count(True)


def test_it_is_forgotten_when_it_is_good_no_more(database: Database) -> None:
    """The table stays as small as the traffic of that time."""
    clock = FakeClock()
    taken = TakenSignatures(database, clock)
    taken.take("a" * 64, 600)
    clock.advance(599)
    taken.take("b" * 64, 600)
    assert 0 == taken.prune()
    clock.advance(2)
    assert (1, False, True) == (taken.prune(), taken.take("b" * 64, 600), taken.take("a" * 64, 600))


def test_a_conductor_whose_clock_is_ahead_forgets_nothing_early(database: Database) -> None:
    """It would let a message that another conductor took be repeated."""
    right = TakenSignatures(database, LedgerClock(database, ClockSkew(0)))
    ahead = TakenSignatures(database, LedgerClock(database, ClockSkew(0), wall=lambda: utcnow() + seconds(3600)))
    right.take("a" * 64, 600)
    assert (0, False) == (ahead.prune(), ahead.take("a" * 64, 600))
