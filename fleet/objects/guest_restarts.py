# SPDX-License-Identifier: Apache-2.0
"""Limits on restarts of a guest that keeps dying: waits that double, and a number of restarts in a window of time.

Conductors count the restarts of a guest in its events. An agent counts by itself while its conductors are older.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated

import pydantic

from fleet.json_codec import JSONObject

#: Bounds of the options: a year in seconds, and restarts that a transaction counts.
MOST_SECONDS, MOST_RESTARTS = 31_536_000, 1000
#: Without a limit only so many of the newest restarts matter: they set the wait.
REMEMBERED = 64
_Seconds = Annotated[int, pydantic.Strict(), pydantic.Field(ge=0, le=MOST_SECONDS)]


class Next(enum.Enum):
    """The next step for a guest that does not run."""

    START = "start"
    WAIT = "wait"
    GIVE_UP = "give up"


@dataclasses.dataclass(frozen=True)
class RestartLimits:
    """:param most: restarts within ``window_s`` seconds; 0: any number

    :param wait_s: seconds between the first restart and the second; it doubles with each restart in the window
    """

    most: Annotated[int, pydantic.Strict(), pydantic.Field(ge=0, le=MOST_RESTARTS)] = 0
    window_s: _Seconds = 3600
    wait_s: _Seconds = 10

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)

    @property
    def remembered(self) -> int:
        """The number of restarts that matter, from the newest on."""
        return self.most or REMEMBERED

    def next(self, ages_s: Sequence[float]) -> Next:
        """Return the next step for a guest that does not run now.

        :param ages_s: seconds since each restart within the window
        """
        if not ages_s:
            return Next.START
        if self.most and len(ages_s) >= self.most:
            return Next.GIVE_UP
        # The exponent is bounded: a float ends at 2^1023.
        wait_s = min(self.wait_s * 2.0 ** min(len(ages_s) - 1, REMEMBERED), self.window_s)
        return Next.START if min(ages_s) >= wait_s else Next.WAIT


class Fate(enum.Enum):
    """The answer of a conductor about a guest that does not run.

    START: the agent starts it. WAIT: not yet, or its row has changed. MOVED: it moves to another host. FAILED: its
    instance is in ERROR.
    """

    START = "start"
    WAIT = "wait"
    MOVED = "moved"
    FAILED = "failed"
