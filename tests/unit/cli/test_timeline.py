# SPDX-License-Identifier: Apache-2.0
"""Which daemon a line of ``fleet trace`` is about."""

from __future__ import annotations

import pytest

from fleet_cli.servers import timeline


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param({"event": "create"}, "fleet-conductor", id="accepted"),
        pytest.param({"event": "schedule"}, "fleet-scheduler", id="no valid host"),
        pytest.param({"event": "claim", "host": "h1"}, "fleet-compute", id="claimed"),
        pytest.param({"event": "attempt", "host": "h1", "step": "spawn"}, "fleet-compute", id="failed in the driver"),
        pytest.param({"event": "attempt", "host": "h1", "step": "cast"}, "fleet-conductor", id="no queue"),
        pytest.param({"event": "attempt", "host": "h1", "step": "spawning"}, "fleet-conductor", id="overdue"),
        pytest.param({"event": "hand-back", "host": "h1", "step": "queue"}, "fleet-compute", id="handed back"),
        pytest.param({"event": "delete", "host": "h1"}, "fleet-compute", id="destroyed"),
        pytest.param({"event": "delete", "host": None}, "fleet-conductor", id="deleted before it had a host"),
        pytest.param({"event": "fault", "host": "h1"}, "fleet-conductor", id="fault"),
    ],
)
def test_daemon(event: dict[str, str], expected: str) -> None:
    """The one that did it, or that noticed."""
    assert expected == timeline.daemon(event)
