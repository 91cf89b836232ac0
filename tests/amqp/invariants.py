# SPDX-License-Identifier: Apache-2.0
"""``violations``: everything that is wrong with a trio at a moment of rest."""

from __future__ import annotations

import oslo_messaging

from fleet.context import new_context
from tests.amqp.daemons import Trio, eventually
from tests.invariants import drivers, moment, rest
from tests.invariants.ledger import Ledger, open_engine

#: A daemon that a test has started again is not back yet.
_AWAY = (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable)


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
    """How many instances fit by the scheduler, if only room decides."""
    spec = {"num_instances": 1, "instance_type": rest.PROBE}
    return trio.scheduler.capacity(new_context(), spec, {})


def come_to_rest(trio: Trio, timeout_s: float = 180) -> None:
    """Wait until nothing is wrong: the last message about a build may still be under way.

    :raises AssertionError: with all that is wrong
    """
    wrong: list[str] = []

    def at_rest() -> bool:
        wrong[:] = violations(trio)
        return not wrong

    try:
        eventually(at_rest, timeout_s, retry_on=_AWAY)
    except AssertionError:
        raise AssertionError(f"not within {timeout_s:g} s: {wrong}") from None
