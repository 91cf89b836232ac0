# SPDX-License-Identifier: Apache-2.0
"""Tells all schedulers what is on a host (spec/conductor-compute §7); one that misses it learns from the change feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oslo_log import log as logging

from compute_agent.host import Host
from fleet import context as fleet_context
from fleet.context import RequestContext
from fleet.objects import Instance
from fleet.rpc.clients import SchedulerAPI

LOG = logging.getLogger(__name__)


class InstanceInfo:
    """Nobody's build fails, and nobody waits, because no scheduler could be told.

    :param scheduler: None where ``scheduler_tracks_instance_changes`` is off: then nothing is told
    """

    def __init__(self, scheduler: SchedulerAPI | None = None) -> None:
        self._scheduler = scheduler

    def arrived(self, context: RequestContext, instance: Instance) -> None:
        """It is there now."""
        scheduler, host = self._scheduler, instance.host
        if scheduler is not None and host is not None:
            info = {
                "uuid": instance.uuid,
                "node": instance.node,
                "vm_state": instance.vm_state,
                "task_state": instance.task_state,
                "instance_type_id": instance.flavor.id,
                "project_id": instance.project_id,
            }
            self._tell(lambda: scheduler.update_instance_info(context, host, [info]))

    def gone(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """It is not there any more."""
        scheduler = self._scheduler
        if scheduler is not None:
            self._tell(lambda: scheduler.delete_instance_info(context, host, instance_uuid))

    def sync(self, hosts: Iterable[Host]) -> None:
        """All that is on each of the hosts, by uuid."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        context = fleet_context.new_context()
        for host in hosts:
            name, uuids = host.name, sorted(host.tracked())
            if not self._tell(lambda: scheduler.sync_instance_info(context, name, uuids)):  # noqa: B023  (called at once)
                return

    @staticmethod
    def _tell(cast: Callable[[], None]) -> bool:
        """Whether it went out."""
        try:
            cast()
        except Exception as failure:
            # Whatever the broker's driver raises: the change feed says the same.
            LOG.info("The schedulers were not told (%s: %s); they will read it", type(failure).__name__, failure)
            return False
        return True
