# SPDX-License-Identifier: Apache-2.0
"""A list shows each instance as it is shown alone, and as agents receive it."""

from __future__ import annotations

from fleet.db import instances
from fleet.objects import Image
from tests.functional.conductor import Conductor


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
