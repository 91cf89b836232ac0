# SPDX-License-Identifier: Apache-2.0
"""``violations``: everything that is wrong with a trio at a moment of rest."""

from __future__ import annotations

from fleet.context import new_context
from tests.amqp.daemons import Trio
from tests.invariants import drivers, moment, rest
from tests.invariants.ledger import Ledger, open_engine


def violations(trio: Trio) -> list[str]:
    """Empty is good."""
    ledger = Ledger.read(open_engine(trio.database_url))
    guests = drivers.guests(trio.instances_path)
    views = {host: trio.describe_host(host) for host in sorted({node["host"] for node in ledger.nodes})}
    wrong = [f"{number}: {line}" for number, check in moment.CHECKS for line in check(ledger)]
    wrong += [f"I2: {line}" for line in rest.guests_are_where_the_ledger_says(ledger, guests)]
    wrong += [f"I12: {line}" for line in rest.power_states_agree(ledger, guests)]
    wrong += [f"I5: {line}" for line in rest.agents_agree(ledger, views, guests)]
    wrong += [f"I5: {line}" for line in rest.the_scheduler_agrees(ledger, capacity(trio))]
    return wrong


def capacity(trio: Trio) -> dict:
    """What the scheduler says still fits, with nothing but room deciding."""
    spec = {"num_instances": 1, "instance_type": rest.PROBE}
    return trio.scheduler.capacity(new_context(), spec, {})
