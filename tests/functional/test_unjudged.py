# SPDX-License-Identifier: Apache-2.0
"""A request is accepted with a remark on each part that no filter of the schedulers judges."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from fleet.objects import BuildRequest
from tests.worlds.conductor import Conductor, context

FLAVOR = {"vcpus": 1, "memory_mb": 512}


def warnings(conductor: Conductor, **request: Any) -> list[str]:
    accepted = conductor.intake.accept(context(), BuildRequest.from_wire({"flavor": FLAVOR, **request}))
    return accepted.get("warnings", [])


def test_parts_that_no_filter_judges(conductor: Conductor) -> None:
    """Zone, group, cells, devices and hints are remarked by what the scheduler last said about its filters."""
    conductor.operator.create_group("apart", "anti-affinity", 1)
    conductor.operator.create_aggregate("racks", {"availability_zone": "mars"})
    conductor.add_host("host1")
    asked = {
        "availability_zone": "mars",
        "group": "apart",
        "scheduler_hints": {"rack": "r1"},
        "flavor": {**FLAVOR, "extra_specs": {"hw:numa_nodes": "1"}},
    }
    assert [] == warnings(conductor, **asked), "before a scheduler has answered"
    conductor.scheduler.judged = ["vcpus", "memory_mb"]
    conductor.unjudged.learn()
    remarks = [f"{part}: no filter judges it" for part in ("availability_zone", "group", "NUMA topology", "hint rack")]
    assert remarks == warnings(conductor, **asked)
    assert [] == warnings(conductor, availability_zone="mars:host1"), "no filter runs for a forced host"
    conductor.scheduler.judged += ["availability_zone", "group/anti-affinity", "numa_topology", "hint/*"]
    conductor.unjudged.learn()
    assert [] == warnings(conductor, **asked)


def test_rules_of_a_group(conductor: Conductor) -> None:
    """Only those that forbid a host: a preference that no weigher reads forbids nothing."""
    for name, policy in (("hard", "spread"), ("soft", "soft-spread")):
        conductor.operator.create_group(name, "none", rules=[{"policy": policy, "label": "rack"}])
    conductor.scheduler.judged = ["vcpus", "memory_mb"]
    conductor.unjudged.learn()
    assert ["rules of the group: no filter judges it"] == warnings(conductor, group="hard")
    assert [] == warnings(conductor, group="soft")
    conductor.scheduler.judged += ["group/rules"]
    conductor.unjudged.learn()
    assert [] == warnings(conductor, group="hard")


def test_schedulers_that_do_not_answer(conductor: Conductor) -> None:
    """The former answer counts, and the request is accepted."""
    conductor.scheduler.judged = ["memory_mb"]
    conductor.unjudged.learn()
    conductor.scheduler.failure = oslo_messaging.MessagingTimeout("late")
    conductor.unjudged.learn()
    assert ["vcpus: no filter judges it"] == warnings(conductor)
