# SPDX-License-Identifier: Apache-2.0
"""Promises of the fleet, of zones and of aggregates, in the ledger."""

from __future__ import annotations

import pytest

from conductor_stub.operators.tolerances import ToleranceManager
from fleet import errors
from fleet.context import new_context
from fleet.db.operations import tolerances
from fleet.objects import Aggregate
from fleet.objects.tolerance import Tolerance
from tests.worlds.conductor import Conductor

HOSTS = ("h1", "h2")
RACKS = {"kind": "aggregate", "name": "racks", "number": 1, "label": "rack", "policy": "refuse"}


def test_a_promise_is_set_changed_and_taken_back(conductor: Conductor) -> None:
    """Each of these is an act; a scope has one promise."""
    operator = conductor.operator
    fleet = {"kind": "fleet", "name": "", "number": 1, "label": None, "policy": "warn"}
    assert fleet == operator.set_tolerance({})
    assert {**fleet, "number": 2} == operator.set_tolerance({"number": 2})
    assert [{**fleet, "number": 2}] == operator.list_tolerances()
    operator.unset_tolerance("fleet")
    assert [] == operator.list_tolerances()
    acts = [(each["act"], each["changes"].get("number")) for each in reversed(operator.list_acts())]
    assert [("tolerance.set", [None, 1]), ("tolerance.set", [1, 2]), ("tolerance.unset", [2, None])] == acts


def test_a_promise_of_an_aggregate_follows_its_name(conductor: Conductor) -> None:
    operator = conductor.operator
    operator.create_aggregate("racks", {})
    operator.set_tolerance(RACKS)
    operator.rename_aggregate("racks", "shelves")
    assert [{**RACKS, "name": "shelves"}] == operator.list_tolerances()
    operator.delete_aggregate("shelves")
    assert [] == operator.list_tolerances()


def test_scopes_that_are_not_there(conductor: Conductor) -> None:
    operator = conductor.operator
    with pytest.raises(errors.NotFound, match="Aggregate racks"):
        operator.set_tolerance(RACKS)
    with pytest.raises(errors.NotFound, match="Zone east"):
        operator.set_tolerance({"kind": "zone", "name": "east"})
    with pytest.raises(errors.NotFound, match="Tolerance of fleet"):
        operator.unset_tolerance("fleet")
    operator.create_aggregate("a", {"availability_zone": "east"})
    operator.set_tolerance({"kind": "zone", "name": "east"})
    assert ["east"] == [each["name"] for each in operator.list_tolerances()]


def test_a_promise_of_a_zone_that_has_gone_can_be_taken_back(conductor: Conductor) -> None:
    """It is listed, and it would hold again for a later zone of this name."""
    operator = conductor.operator
    operator.create_aggregate("a", {"availability_zone": "east"})
    operator.set_tolerance({"kind": "zone", "name": "east"})
    operator.delete_aggregate("a")
    assert ["east"] == [each["name"] for each in operator.list_tolerances()]
    operator.unset_tolerance("zone", "east")
    assert [] == operator.list_tolerances()
    with pytest.raises(errors.NotFound, match="Tolerance of zone east"):
        operator.unset_tolerance("zone", "east")


def test_the_default_zone_promises_as_any_other(conductor: Conductor) -> None:
    """No aggregate has to name it."""
    operator = conductor.operator
    operator.set_tolerance({"kind": "zone", "name": "nova"})
    assert [("zone", "nova")] == [(each["kind"], each["name"]) for each in operator.list_tolerances()]
    operator.unset_tolerance("zone", "nova")
    assert [] == operator.list_tolerances()


def test_an_aggregate_may_be_several_zones(conductor: Conductor) -> None:
    """Its hosts are in each of them, as for the zone filter."""
    conductor.operator.create_aggregate("a", {"availability_zone": "east, west"})
    for zone in ("east", "west"):
        conductor.operator.set_tolerance({"kind": "zone", "name": zone})
    known = [Aggregate(1, "a", ["h1"], {"availability_zone": "east, west"})]
    assert ["h1"] == tolerances.hosts_of(Tolerance("zone", "west"), HOSTS, known, "nova")


def test_the_options_promise_while_the_ledger_does_not(conductor: Conductor) -> None:
    """A promise of an aggregate stands beside them; one of the fleet stands in their place."""
    from_options = Tolerance(number=2, policy="last")
    manager = ToleranceManager(conductor.database, of_fleet=from_options)
    context = new_context()
    conductor.operator.create_aggregate("racks", {})
    manager.set_tolerance(context, tolerance=RACKS)
    assert [RACKS, from_options.to_wire()] == manager.list_tolerances(context)
    own = manager.set_tolerance(context, tolerance={"number": 1, "policy": "refuse"})
    assert [own, RACKS] == sorted(manager.list_tolerances(context), key=lambda each: each["name"])
    manager.unset_tolerance(context, kind="fleet")
    assert [RACKS, from_options.to_wire()] == manager.list_tolerances(context)
