# SPDX-License-Identifier: Apache-2.0
"""A decision that is not booked, with the filter that drops each host.

:mod:`scheduler.state.decider` makes it for ``fleet explain``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy

from scheduler.engine import filtering
from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.prepared_request import PreparedRequest


def survey(
    pipeline: Pipeline,
    prepared: tuple[PreparedRequest, PreparedRequest],
    hosts: Candidates,
    state: StateAge,
    chance: random.Random,
) -> tuple[Decision, Mapping[str, str]]:
    """Return the decision that would be made, and host → name of the filter that drops it, with all its nodes.

    :param prepared: the request twice: a decision changes what it is given
    """
    judging, deciding = prepared
    names = [type(each).__name__ for each in judging.filters]
    judged = filtering.run(judging, hosts, restriction.allowed(hosts, judging.request)).dropped_by
    dropped = {hosts.key(row)[0]: names[judged[row]] for row in numpy.flatnonzero(judged >= 0).tolist()}
    for row in numpy.flatnonzero(judged == filtering.PASSED).tolist():
        dropped.pop(hosts.key(row)[0], None)  # another node of the host passes
    return decide(pipeline, deciding, hosts, chance, log=False, state=state), dropped
