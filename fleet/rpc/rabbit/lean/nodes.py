# SPDX-License-Identifier: Apache-2.0
"""With which node of a cluster a connection opens, and when it returns to it.

Called by the modules beside it. Each connection has a *home*: connection n of process p has node (p + n) modulo the
number of nodes. So the connections of a process, and processes, share the nodes evenly. A connection that cannot have
its home opens with any other node. Some time after its home was lost, a connection looks whether it accepts
connections again, and moves there::

    at home ── the node dies ──▶ elsewhere ── after the interval, at random ──▶ home again, or elsewhere for another interval
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence

from fleet.rpc.rabbit.lean.settings import Broker

#: Connections for which the process has chosen a home.
_chosen = itertools.count()


class Nodes:
    """The nodes as one connection of a process sees them, which is opened again and again. Not safe for threads.

    :param interval_s: seconds between two looks at a home that was lost, give or take a half; 0: the connection stays
    """

    def __init__(
        self,
        brokers: Sequence[Broker],
        interval_s: float,
        chance: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._brokers = list(brokers)
        self.home = self._brokers[(os.getpid() + next(_chosen)) % len(self._brokers)]
        self._interval_s = interval_s
        self._chance = chance or random.Random()
        self._clock = clock
        #: When the home is tried again; None while it is not known to be away.
        self._look_at: float | None = None

    def in_turn(self) -> list[Broker]:
        """Return all nodes in the order in which to try them: the home first, or last if it was lost lately."""
        others = [each for each in self._brokers if each is not self.home]
        self._chance.shuffle(others)
        if self._look_at is not None and self._clock() < self._look_at:
            return [*others, self.home]
        return [self.home, *others]

    def lost(self, broker: Broker) -> None:
        """A connection to this node was lost, or refused."""
        if broker is self.home:
            self._look_at = self._clock() + self._chance.uniform(0.5, 1.5) * self._interval_s

    def should_return(self, broker: Broker) -> bool:
        """Return True if it is time for a connection to this node to try its home."""
        if broker is self.home or not self._interval_s:
            return False
        if self._look_at is None:
            self.lost(self.home)
        return self._look_at is not None and self._clock() >= self._look_at
