# SPDX-License-Identifier: Apache-2.0
"""``fleet doctor`` on running daemons."""

from __future__ import annotations

import contextlib
import json
import signal
from typing import Any

from fleet import errors
from tests.amqp.daemons import Trio, eventually


def found(trio: Trio, *arguments: str) -> tuple[int, dict[str, list[str]]]:
    """Exit status, and the results of each check."""
    ran = trio.cli("doctor", "-f", "json", *arguments)
    results: dict[str, list[str]] = {}
    for row in json.loads(ran.stdout):
        results.setdefault(row["check"], []).append(f"{row['result']} {row['found']}")
    return ran.returncode, results


def forget_stopped_services(trio: Trio) -> None:
    """Delete the records of daemons that other tests have started and stopped; each is down after a while."""

    def stopped() -> list[dict[str, Any]]:
        return [each for each in trio.operator("list_services") if each["state"] != "up" or each["status"] != "enabled"]

    def all_deleted() -> bool:
        for each in stopped():
            with contextlib.suppress(errors.Conflict):
                trio.operator("delete_service", host=each["host"], binary=each["binary"])
        return not stopped()

    eventually(all_deleted)


def test_a_trio_in_good_condition(trio: Trio) -> None:
    """All agents answer, the clocks agree and the queues are the broker's; only the driver is simulated, and
    the trio of these tests has a list of filters of its own.
    """
    forget_stopped_services(trio)
    consumers = {"conductor": 2, "scheduler": 1, "conductor_ledger": 2, "volume_conductor": 2, "volume_scheduler": 1}
    queues = [f"OK {name}: 0 messages wait, {number} consumers" for name, number in consumers.items()]
    # A worker that another test has started may consume later than the first one.
    eventually(lambda: queues == found(trio)[1]["queues"])
    status, results = found(trio)
    assert 1 == status, results
    warnings = [each for found_by_check in results.values() for each in found_by_check if not each.startswith("OK ")]
    assert 2 == len(warnings), warnings
    assert warnings[0].startswith("WARN 6 hosts are simulated")
    assert warnings[1].startswith("WARN scheduler_default_filters")
    assert ["OK 6 of 6 agents asked, all answer"] == results["agents"]
    assert ["OK 6 of 6 agents asked, all within 1 s of the database"] == results["clocks"]
    assert ["OK accepts connections"] == results["broker"]
    assert queues == results["queues"]


def test_a_scheduler_that_hangs(trio: Trio) -> None:
    """It has a queue, and does not answer."""
    trio.signal("scheduler", signal.SIGSTOP)
    try:
        status, results = found(trio, "--timeout", "1", "--hosts", "0")
    finally:
        trio.signal("scheduler", signal.SIGCONT)
    assert 2 == status, results
    assert ["FAIL no answer: the call timed out"] == results["scheduler"]
    eventually(lambda: found(trio, "--hosts", "0")[0] == 1)
