# SPDX-License-Identifier: Apache-2.0
"""The part of all metrics that the page of one daemon shows. :mod:`fleet.telemetry.health` serves it.

Each process has all metrics of :mod:`fleet.telemetry.metrics`. Those of other daemons would be zeros there: a point in time
of 1970, and hosts or builds that nobody has counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import prometheus_client

from fleet import states
from fleet.reasons import Reason
from fleet.telemetry import metrics

#: How the names of a daemon's own metrics begin.
_OWN: Mapping[str, str] = {
    "fleet-conductor": "fleet_conductor_",
    "fleet-scheduler": "fleet_scheduler_",
    "fleet-compute": "fleet_compute_",
}
#: What begins with one of the names above, and other daemons have, too.
_DAEMONS = ("fleet-volume", "fleet-api", *_OWN)


class Exposition:
    """The metrics of one daemon, for ``prometheus_client.generate_latest``.

    :param daemon: its name. Any other name, such as that of a process with all services: all metrics are shown
    """

    def __init__(self, daemon: object = None) -> None:
        self._foreign = tuple(begin for of, begin in _OWN.items() if daemon in _DAEMONS and of != daemon)
        for of, expect in _EXPECTED.items():
            if daemon == of or daemon not in _DAEMONS:
                expect()

    def collect(self) -> Iterator[prometheus_client.Metric]:
        for metric in prometheus_client.REGISTRY.collect():
            if not metric.name.startswith(self._foreign):
                yield metric


def _expect_decisions() -> None:
    """A counter that comes with its first event begins at 1, and ``increase`` over it never sees that event."""
    for reason in Reason:
        metrics.DECISIONS.labels("refused", reason.value)
        metrics.DECISIONS.labels("failed", reason.value)


def _expect_builds() -> None:
    for reason in Reason:
        metrics.BUILDS_ENDED.labels(states.ERROR, reason.value)


def _expect_guests() -> None:
    for name in states.POWER_NAMES.values():
        metrics.GUEST_CHANGES.labels(name)
    for result in ("done", "failed"):
        metrics.SPAWNS.labels(result)
    for result in ("held", "refused"):
        metrics.CLAIMS.labels(result)


_EXPECTED: Mapping[str, Callable[[], None]] = {
    "fleet-conductor": _expect_builds,
    "fleet-scheduler": _expect_decisions,
    "fleet-compute": _expect_guests,
}
