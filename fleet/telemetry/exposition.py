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

#: The process of a trial, which has all services.
_ALL = "all"


class Exposition:
    """The metrics of one daemon, for ``prometheus_client.generate_latest``.

    :param daemon: its name. None, or "all": the process has all services, and shows all metrics
    """

    def __init__(self, daemon: object = None) -> None:
        served = _EXPECTED.keys() if daemon in (None, _ALL) else {daemon}
        # The names of a daemon's own metrics begin with its name.
        self._foreign = tuple(f"{each}_".replace("-", "_") for each in _EXPECTED if each not in served)
        for each, expect in _EXPECTED.items():
            if each in served:
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


#: Makes the counters that alerts watch, of each daemon that has metrics of its own.
_EXPECTED: Mapping[str, Callable[[], None]] = {
    "fleet-conductor": _expect_builds,
    "fleet-scheduler": _expect_decisions,
    "fleet-compute": _expect_guests,
}
