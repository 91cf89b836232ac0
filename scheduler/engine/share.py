# SPDX-License-Identifier: Apache-2.0
"""One scheduler's share of the hosts.

Called by :mod:`scheduler.engine.decide` and :mod:`scheduler.engine.decision`. A pick prefers it, so that several
schedulers seldom choose the same room.

The share never refuses a request. A pick goes past it in three cases:

- no host of the share passes the filters
- the best host of all is preferred by a weigher that outranks the share, such as soft affinity
- the request has more instances than the share has hosts that pass
"""

from __future__ import annotations

from typing import NamedTuple

import numpy

from scheduler.engine.evaluation import Evaluation
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.weighing.weighing import OUT


class ShareUse(NamedTuple):
    """The use that a decision made of the share.

    :param hosts: the number of hosts in the share
    :param passed: how many of them passed the filters for the first instance
    :param beyond: the number of picks outside of the share
    """

    hosts: int
    passed: int
    beyond: int

    def to_wire(self) -> dict[str, int]:
        return self._asdict()


class Share:
    """The share during one decision.

    :param own: mask of the share, over the whole table
    :param requested: the number of instances of the request
    """

    def __init__(self, own: numpy.ndarray, hosts: Candidates, evaluation: Evaluation, requested: int) -> None:
        self._own = own
        self._evaluation = evaluation
        self._hosts = int(numpy.count_nonzero(own & hosts.present()))
        self._passed = int(numpy.count_nonzero(own & (evaluation.scores != OUT)))
        self._is_wide_enough = requested <= self._passed
        self._beyond = 0

    def scores(self) -> numpy.ndarray | None:
        """Return the scores with all hosts outside of the share taken out; None if the pick goes past the share."""
        if not self._is_wide_enough:
            return None
        scores = self._evaluation.scores
        inside = numpy.where(self._own, scores, OUT)
        best, first = int(inside.argmax()), int(scores.argmax())
        if inside[best] == OUT or (not self._own[first] and self._evaluation.outranks(first, best)):
            return None
        return inside

    def count(self, row: int) -> None:
        """Count a pick."""
        self._beyond += not self._own[row]

    def use(self) -> ShareUse:
        return ShareUse(self._hosts, self._passed, self._beyond)
