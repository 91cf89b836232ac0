# SPDX-License-Identifier: Apache-2.0
"""Orders that no conductor wants, over the real broker: an agent acts on the row."""

from __future__ import annotations

import pytest

from fleet.context import new_context
from tests.amqp.daemons import Trio, eventually
from tests.amqp.invariants import come_to_rest


@pytest.mark.parametrize("order", ["terminate", "advance"])
def test_a_forged_order_leaves_guest_and_row_alone(trio: Trio, order: str) -> None:
    """The agent reads the row, drops the order with one warning, and goes on with what the row wants."""
    (uuid,) = trio.boot(availability_zone="nova:a1")
    assert "active" == trio.wait_for([uuid], "active", "error")[uuid]
    {"terminate": trio.compute.terminate_instance, "advance": trio.compute.advance_migration}[order](
        new_context(), "a1", uuid
    )
    eventually(lambda: f"Dropping a {order} order for instance {uuid} on a1" in trio.log("agent-a"))
    assert uuid in trio.describe_host("a1")["guests"]
    shown = trio.show(uuid)["instance"]
    assert ("active", None, "a1") == (shown["vm_state"], shown["task_state"], shown["host"])
    come_to_rest(trio)


def test_a_termination_order_for_another_host_is_dropped(trio: Trio) -> None:
    """A misrouted order destroys nothing; the guest continues on its host."""
    (uuid,) = trio.boot(availability_zone="nova:a1")
    assert "active" == trio.wait_for([uuid], "active", "error")[uuid]
    trio.compute.terminate_instance(new_context(), "b1", uuid)
    # One agent's orders come in their order: the next one's effect shows that this one was judged.
    trio.compute.terminate_instance(new_context(), "a1", uuid)
    eventually(lambda: f"Dropping a terminate order for instance {uuid} on a1" in trio.log("agent-a"))
    assert uuid in trio.describe_host("a1")["guests"]
    assert uuid not in trio.describe_host("b1")["guests"]
    come_to_rest(trio)
