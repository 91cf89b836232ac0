# SPDX-License-Identifier: Apache-2.0
"""A decision that is not booked, with the reason for which each host was left out.

:mod:`scheduler.state.decider` makes it for shadows.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import numpy

from scheduler.engine import filtering
from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.table import Key
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.prepared_request import PreparedRequest

EXCLUDED, UNKNOWN = "excluded by the request", "not known here"
_UNKNOWN = filtering.ABSENT - 1


@dataclasses.dataclass(frozen=True)
class Objections:
    """The reason against each host in one survey. Thousands are kept at a time, so a host has two bytes.

    :param nodes: the key of each row of the table; surveys of the same nodes share the list
    :param judged: per row the number of the filter that dropped it, or a number below zero
    :param filters: their names
    """

    nodes: Sequence[Key | None]
    judged: numpy.ndarray
    filters: Sequence[str]

    def of(self, host: str) -> str:
        """Return the name of the filter that dropped the host with all its nodes, or another reason; "" if it passed."""
        rows = [row for row, key in enumerate(self.nodes) if key is not None and key[0] == host]
        found = max(self.judged[rows].tolist(), default=_UNKNOWN)
        if filtering.PASSED in self.judged[rows]:
            return ""
        if found >= 0:
            return self.filters[found]
        return EXCLUDED if found == filtering.ABSENT else UNKNOWN


def survey(
    pipeline: Pipeline,
    prepared: tuple[PreparedRequest, PreparedRequest],
    hosts: Candidates,
    state: StateAge,
    chance: random.Random,
    nodes: Sequence[Key | None] = (),
) -> tuple[Decision, Objections]:
    """Return the decision that would be made, and what spoke against the hosts.

    :param prepared: the request twice: a decision changes what it is given
    :param nodes: those of an earlier survey, to be shared
    """
    judging, deciding = prepared
    judged = filtering.run(judging, hosts, restriction.allowed(hosts, judging.request)).dropped_by
    judged = numpy.where(hosts.present(), judged, numpy.int16(_UNKNOWN))
    known = hosts.keys()
    names = [type(each).__name__ for each in judging.filters]
    objections = Objections(nodes if nodes == known else list(known), judged, names)
    return decide(pipeline, deciding, hosts, chance, log=False, state=state), objections
