# SPDX-License-Identifier: Apache-2.0
"""Consoles of guests: the conductor asks the agent that has the guest."""

from __future__ import annotations

import pytest

from fleet import errors
from tests.worlds.conductor import Conductor


def test_the_host_has_the_console(conductor: Conductor) -> None:
    """Before a host has claimed the instance there is none; an agent that does not answer is named with its host."""
    uuid = conductor.place("h1")
    with pytest.raises(errors.Conflict, match="is on no host, so it has no console"):
        conductor.operator.get_console_output(uuid)
    conductor.claim(uuid, "h1")
    assert f"{uuid} on h1" == conductor.operator.get_console_output(uuid)
    conductor.compute.without_queue.add("h1")
    with pytest.raises(errors.ServiceDown, match="fleet-compute on host h1 is down: it does not answer"):
        conductor.operator.get_console_output(uuid)
