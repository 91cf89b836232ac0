# SPDX-License-Identifier: Apache-2.0
"""What lists show."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli import fakes


def a_host(name: str, driver: str = "local") -> dict[str, Any]:
    return {"host": name, "node": name, "state": "up", "status": "enabled", "hypervisor_type": driver}


def a_service(host: str, driver: str = "local") -> dict[str, Any]:
    return {"host": host, "binary": "fleet-compute", "state": "up", "status": "enabled", "driver": driver}


@pytest.mark.parametrize(
    ("argv", "method", "records"),
    [
        pytest.param(["host", "list"], "list_hosts", [a_host("h1"), a_host("h2", "fake")], id="hosts"),
        pytest.param(["service", "list"], "list_services", [a_service("h1"), a_service("h2", "fake")], id="services"),
    ],
)
def test_invented_hosts_are_named(run, argv: list[str], method: str, records: list[dict[str, Any]]) -> None:
    """The driver is in the table, and a remark beside it says what that means."""
    conductor = fakes.Conductor()
    conductor.answers[method] = records
    status, printed, remarks = run(conductor, *argv)
    assert 0 == status
    assert "fake" in next(line for line in printed.splitlines() if "h2" in line)
    assert "1 of 2 hosts are SIMULATED (driver fake): no instance really runs there." in remarks
    conductor.answers[method] = records[:1]
    assert "" == run(conductor, *argv)[2]
