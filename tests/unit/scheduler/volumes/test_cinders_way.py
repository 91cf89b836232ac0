# SPDX-License-Identifier: Apache-2.0
"""The slow reference of the part ``pools`` of the bench decides as the scheduler does; otherwise its speed says nothing."""

from __future__ import annotations

import random

from scheduler.engine import decide, pipeline
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.pool_state import name_of
from scheduler.volumes.domain.request import VolumeRequest
from tests.bench import pools as bench


def picked(pools: bench.Pools, request: VolumeRequest) -> str | None:
    """The scheduler's pool, which is not booked: the reference books nothing either."""
    prepared = pipeline.prepare(pools.pipeline, request)

    def work(hosts: Candidates, state: StateAge) -> Decision:
        return decide.decide(pools.pipeline, prepared, hosts, random.Random(1), state=state)

    made = pools.manager.consider(work)
    return name_of(made.picks[0].key) if made.picks else None


def test_the_reference_picks_the_same_pool() -> None:
    """For every size and kind that the bench asks for."""
    pools = bench.Pools(400)
    cinder = bench.cinder(pools.pools)
    for number in range(1, 41):
        wanted = pools.request(number)
        assert cinder.decide(bench.properties(wanted, number)) == picked(pools, wanted)
