# SPDX-License-Identifier: Apache-2.0
"""A list shows each instance as it is shown alone, and as agents receive it."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.db import instances
from fleet.objects import BuildRequest, Image
from tests.functional.conductor import Conductor, context


def test_a_list_shows_what_each_instance_is(conductor: Conductor) -> None:
    """Placed, claimed and waiting ones, with hints, image and metadata or without."""
    image = Image(id="i1", name="debian", properties={"hw_cpu_policy": "shared"}).to_wire()
    placed = conductor.place("h1", image=image, metadata={"a": "1"}, scheduler_hints={"b": ["2"]}, name="one")
    conductor.claim(placed, "h1")
    conductor.clock.advance(1)
    conductor.create(name="two", flavor={"vcpus": 2, "memory_mb": 64, "extra_specs": {"ssd": "true"}})
    listed = conductor.operator.list_instances()
    assert ["one", "two"] == [each["name"] for each in listed]
    alone = [conductor.operator.show_instance(each["uuid"]) for each in listed]
    assert listed == [{**each["instance"], "volumes": each["volumes"]} for each in alone]
    rows = conductor.database.read(instances.list_all)
    assert [instances.to_instance(row).to_wire() for row in rows] == [
        instances.to_wire(row._mapping, instances.spec_of(row)) for row in rows
    ]


def test_hosts_as_a_table_are_those_of_the_list(conductor: Conductor) -> None:
    """Any fields of the list, in any order; another one is named."""
    conductor.add_host("h1")
    conductor.add_host("h2")
    conductor.operator.create_aggregate("row", {"availability_zone": "near"})
    conductor.operator.add_aggregate_host("row", "h2")
    listed = conductor.operator.list_hosts()
    names = list(listed[0])
    assert [[each[name] for name in names] for each in listed] == conductor.operator.host_table(names)
    assert [["nova", "h1"], ["near", "h2"]] == conductor.operator.host_table(["zone", "host"])
    with pytest.raises(errors.InvalidInput, match="columns: must be of host, node.*, not colour"):
        conductor.operator.host_table(["host", "colour"])


def test_a_marker_of_another_project_is_unknown(conductor: Conductor) -> None:
    """As one that never was: a project cannot find out which uuids there are."""
    request = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}})
    made = []
    for project in ("theirs", "own"):
        made += conductor.intake.accept(context(project), request)["instances"]
        conductor.clock.advance(1)
    theirs, own = (each["uuid"] for each in made)
    for marker in (theirs, "00000000-0000-0000-0000-000000000001"):
        with pytest.raises(errors.NotFound, match=f"Instance {marker} could not be found"):
            conductor.operator.list_instances({"project_id": "own"}, marker=marker)
    assert [] == conductor.operator.list_instances({"project_id": "own"}, marker=own)
    assert [own] == [each["uuid"] for each in conductor.operator.list_instances(marker=theirs)]
