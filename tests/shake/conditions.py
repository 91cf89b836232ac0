# SPDX-License-Identifier: Apache-2.0
"""The conditions of one shaken process. The module imports nothing of the project: it must run before the project does."""

from __future__ import annotations

import functools
import random
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import wrapt

#: Seconds for which a thread keeps the interpreter if others want it. Python's default is 5e-3.
SWITCH_INTERVAL_S = 1e-5
#: Chance of a pause before a reading of a clock, and its longest duration in seconds.
PAUSES = ((0.003, 0.02), (0.0002, 0.4))
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_ORDERED = re.compile(r"\bORDER BY\b", re.IGNORECASE)
_SELECTS = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)


def shake(seed: str) -> None:
    """Set all conditions, for the rest of this process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    stretch_time(random.Random(f"{seed}/pauses"))
    shuffle_rows(random.Random(f"{seed}/rows"))


def stretch_time(chance: random.Random) -> None:
    """Pause now and then before a reading of a clock, so that two readings are apart."""
    for name in ("monotonic", "time", "perf_counter"):
        setattr(time, name, _paused(getattr(time, name), chance, time.sleep))


def _paused(read: Callable[[], float], chance: random.Random, sleep: Callable[[float], None]) -> Callable[[], float]:
    @functools.wraps(read)
    def reading() -> float:
        drawn = chance.random()
        for share, longest in PAUSES:
            if drawn < share:
                sleep(longest * chance.random())
                break
            drawn -= share
        return read()

    return reading


def shuffle_rows(chance: random.Random) -> None:
    """Return the rows of a query that states no order in random order, as every database may."""

    # Not before the program imports it: agents run without SQLAlchemy.
    @wrapt.when_imported("sqlalchemy")
    def listen(sqlalchemy: Any) -> None:
        from sqlalchemy.engine import cursor as cursors

        def shuffle(_connection: Any, cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool) -> None:
            is_shuffled = isinstance(context.cursor_fetch_strategy, cursors.FullyBufferedCursorFetchStrategy)
            if cursor.description is not None and not is_shuffled and leaves_order_open(statement):
                rows = list(cursor.fetchall())
                chance.shuffle(rows)
                context.cursor_fetch_strategy = cursors.FullyBufferedCursorFetchStrategy(cursor, None, rows)

        sqlalchemy.event.listen(sqlalchemy.Engine, "after_cursor_execute", shuffle)


@functools.lru_cache(10_000)
def leaves_order_open(statement: str) -> bool:
    """Return True for a query without ORDER BY. The order inside of a subquery does not count."""
    if not _SELECTS.match(statement):
        return False
    shorter, outermost = statement, ""
    while shorter != outermost:
        shorter, outermost = _IN_BRACKETS.sub("", shorter), shorter
    return not _ORDERED.search(outermost)
