# SPDX-License-Identifier: Apache-2.0
"""StepLimits of time and number that bound builds, moves and volumes. They are read from the configuration once.

Every domain of the conductor gets them from :mod:`conductor_stub.parts`.
"""

from __future__ import annotations

import dataclasses
import datetime

from oslo_config import cfg

from fleet.clock import seconds
from fleet.objects.quota import NO_LIMITS, RESOURCES, Quota


@dataclasses.dataclass(frozen=True)
class StepLimits:
    """Times in seconds. The options of the same names describe them."""

    max_attempts: int = 3
    build_timeout_s: float = 600
    placing_timeout_s: float = 30
    spawn_timeout_s: float = 300
    move_timeout_s: float = 600
    volume_timeout_s: float = 600
    power_timeout_s: float = 300
    attach_timeout_s: float = 300
    #: Guests that leave a host or come to it, and guests of the whole fleet, that move while they run at a time. 0: any.
    live_per_host: int = 0
    live_in_fleet: int = 0
    #: 0: never.
    resize_confirm_window_s: float = 0
    #: Negative: never.
    shelved_offload_time_s: float = -1
    retry_interval_s: float = 3
    service_down_time_s: float = 60
    claim_refusals: int = 10
    hosts_down_retry_time_s: float = 120
    queue_recheck_interval_s: float = 600
    queue_patience_s: float = 600
    #: Of projects without one of their own.
    default_quota: Quota = NO_LIMITS

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> StepLimits:
        return cls(
            max_attempts=conf.scheduler_max_attempts,
            build_timeout_s=conf.instance_build_timeout,
            placing_timeout_s=conf.conductor.placing_timeout,
            spawn_timeout_s=conf.conductor.spawn_timeout,
            move_timeout_s=conf.conductor.move_timeout,
            live_per_host=conf.conductor.max_live_migrations_per_host,
            live_in_fleet=conf.conductor.max_live_migrations,
            volume_timeout_s=conf.conductor.volume_timeout,
            power_timeout_s=conf.conductor.power_timeout,
            attach_timeout_s=conf.conductor.attach_timeout,
            resize_confirm_window_s=conf.resize_confirm_window,
            shelved_offload_time_s=conf.shelved_offload_time,
            retry_interval_s=conf.conductor.retry_interval,
            service_down_time_s=conf.service_down_time,
            claim_refusals=conf.conductor.claim_refusals,
            hosts_down_retry_time_s=conf.conductor.hosts_down_retry_time,
            queue_recheck_interval_s=conf.conductor.queue_recheck_interval,
            queue_patience_s=conf.conductor.queue_patience,
            default_quota=Quota(**{name: conf.quota[name] for name in RESOURCES}),
        )


@dataclasses.dataclass(frozen=True)
class StepContext:
    """The limits, the time and the request id that each transaction of a step receives.

    :param now: by the database's clock
    """

    limits: StepLimits
    now: datetime.datetime
    request_id: str | None = None

    def due(self, allowed_s: float, deadline: datetime.datetime | None = None) -> datetime.datetime:
        """Step deadline of a step that starts now: after ``allowed_s``, and never later than the row's ``deadline``."""
        return not_after(self.now + seconds(allowed_s), deadline)


def not_after(due: datetime.datetime, deadline: datetime.datetime | None) -> datetime.datetime:
    """``due``, or ``deadline`` if that is earlier."""
    return due if deadline is None else min(due, deadline)
