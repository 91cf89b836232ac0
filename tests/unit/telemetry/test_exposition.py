# SPDX-License-Identifier: Apache-2.0
"""The page of a daemon has its own metrics and the common ones, and the series that alerts watch from the beginning."""

from __future__ import annotations

import prometheus_client
import pytest

from fleet.service import probes
from fleet.telemetry.exposition import Exposition


def page(daemon: str | None) -> str:
    return prometheus_client.generate_latest(Exposition(daemon)).decode()


@pytest.mark.parametrize(
    ("daemon", "own"),
    [
        ("fleet-conductor", {"conductor"}),
        ("fleet-scheduler", {"scheduler"}),
        ("fleet-compute", {"compute"}),
        ("fleet-volume", set()),
        ("fleet-api", set()),
        ("all", {"conductor", "scheduler", "compute"}),
        (None, {"conductor", "scheduler", "compute"}),
    ],
)
def test_a_page_has_its_own_metrics_and_the_common_ones(daemon: str | None, own: set[str]) -> None:
    names = [line.partition("{")[0].split()[0] for line in page(daemon).splitlines() if not line.startswith("#")]
    shown = {each for each in ("conductor", "scheduler", "compute") if any(f"fleet_{each}_" in name for name in names)}
    assert (own, True) == (shown, "fleet_ready" in names)


def test_every_daemon_with_a_page_is_known() -> None:
    """A name that the page does not know has all metrics."""
    assert all("process_cpu_seconds_total" in page(each) for each in probes.DAEMONS)
    assert all("fleet_scheduler_" not in page(each) for each in set(probes.DAEMONS) - {"fleet-scheduler"})


@pytest.mark.parametrize(
    ("daemon", "series"),
    [
        ("fleet-scheduler", 'fleet_scheduler_decisions_total{reason="HOSTS_DOWN",result="refused"}'),
        ("fleet-scheduler", 'fleet_scheduler_decisions_total{reason="CAPACITY",result="refused"}'),
        ("fleet-scheduler", 'fleet_scheduler_decisions_total{reason="INTERNAL",result="failed"}'),
        ("fleet-compute", 'fleet_compute_guest_changes_total{found="crashed"}'),
        ("fleet-compute", 'fleet_compute_guest_changes_total{found="gone"}'),
        ("fleet-compute", 'fleet_compute_spawns_total{result="failed"}'),
        ("fleet-compute", 'fleet_compute_claims_total{result="refused"}'),
        ("fleet-conductor", 'fleet_conductor_builds_ended_total{reason="INTERNAL",state="error"}'),
    ],
)
def test_a_series_of_an_alert_is_there_before_its_first_event(daemon: str, series: str) -> None:
    """Its first event would not be an increase."""
    assert series in page(daemon)
