# SPDX-License-Identifier: Apache-2.0
"""A move prefers its server's cell where nova allows others, and stays in it where nova does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from oslo_messaging.rpc import dispatcher

from fleet.db.feed.feed import Changes
from fleet.objects import RequestSpec
from scheduler.engine.hosts.candidates import Candidates
from scheduler.nova import decoder
from scheduler.nova.cells import CrossCellWeigher
from scheduler.nova.destination import RequestedDestinationFilter
from scheduler.nova.domain import NOVA_MACHINES
from scheduler.nova.request import NovaRequest
from scheduler.state.host_cache import HostCache
from tests import factories
from tests.factories import NOW_S, uuid
from tests.unit.scheduler import judging
from tests.unit.scheduler.nova.recordings import arguments, envelope
from tests.unit.scheduler.nova.worlds import CELL, HOSTS, EndpointInMemory, node_row

OTHER = uuid(77)


def moved(allowed: bool | None) -> NovaRequest:
    cell = envelope("CellMapping", "1.1", uuid=CELL)
    more = {} if allowed is None else {"allow_cross_cell_move": allowed}
    return decoder.decode(arguments(requested_destination=envelope("Destination", "1.4", cell=cell, **more))).request


def hosts(**fields: Any) -> Candidates:
    """The first one in the cell, with these fields, the second one in another."""
    cache = HostCache(NOVA_MACHINES)
    here, there = HOSTS[:2]
    rows = [node_row(here, **fields), dataclasses.replace(node_row(there), cell_uuid=OTHER)]
    cache.apply(factories.changes(rows))
    return cache.candidates(NOW_S)


@pytest.mark.parametrize(
    ("allowed", "expected"), [(None, set(HOSTS[:1])), (False, set(HOSTS[:1])), (True, set(HOSTS[:2]))]
)
def test_which_cells_are_allowed(allowed: bool | None, expected: set[str]) -> None:
    assert expected == judging.passed(RequestedDestinationFilter(), hosts(), moved(allowed))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (decoder.decode(arguments()).request, {HOSTS[1]}),
        (decoder.decode(arguments(force_hosts=[HOSTS[0]])).request, {HOSTS[1]}),
        (factories.request(), {HOSTS[1]}),
        (moved(None), {HOSTS[0]}),
        (moved(True), set(HOSTS[:2])),
    ],
    ids=["new server", "new server by force", "explained request", "move in the cell", "move that may leave the cell"],
)
def test_a_disabled_cell(asked: RequestSpec, expected: set[str]) -> None:
    """Its hosts take only servers whose request names the cell."""
    judge, offered = RequestedDestinationFilter(), hosts(cell_disabled=True)
    assert expected == judging.passed(judge, offered, asked)
    if HOSTS[0] not in expected:
        assert "is in a cell that is disabled" == judge.objection(offered, asked)


def test_a_cell_that_is_disabled_between_two_equal_requests() -> None:
    """What was found for the first one does not hold for the second one."""
    world = EndpointInMemory(claims=False)

    def ask(number: int) -> object:
        sent = arguments(scheduler_hints={})
        sent["instance_uuids"] = [uuid(number)]
        sent["spec_obj"]["nova_object.data"]["instance_uuid"] = uuid(number)
        return world.select(sent)

    assert ask(501)
    assert ask(502)
    world.feed.batches.append(Changes(2, nodes=[node_row(host, cell_disabled=True) for host in HOSTS]))
    world.host_manager.poll()
    with pytest.raises(dispatcher.ExpectedException) as refused:
        ask(503)
    assert "NoValidHost" in str(refused.value.exc_info[0])


def test_which_cell_is_preferred() -> None:
    """Requests that stay in their cell, and those for new servers, are not weighed."""
    weigher = CrossCellWeigher(5.0)
    assert {HOSTS[0]: 1.0, HOSTS[1]: -1.0} == judging.raw(weigher, hosts(), moved(True))
    assert weigher.applies(moved(True))
    assert not weigher.applies(moved(False))
    assert not weigher.applies(decoder.decode(arguments()).request)
