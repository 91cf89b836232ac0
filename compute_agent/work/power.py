# SPDX-License-Identifier: Apache-2.0
"""Stops, starts, reboots, suspends, resumes and rebuilds guests. The instance's row says which; the order only says to
read it.

Nothing is stored between the order and the report. After a repeated order, a restart or a lost answer the row is read
again. So a reboot or a rebuild may be repeated if its agent dies before its report; a stop or a start has no effect the
second time.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.drivers.base import SpawnFailed
from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.notifications import END, ERROR, START, Notifications
from compute_agent.node.host import Host
from compute_agent.work import orders, reach
from compute_agent.work.build import SPAWN_SHARE
from compute_agent.work.turns import Turns
from fleet import errors, failpoints, states
from fleet.agent import time_limit
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import Instance

LOG = logging.getLogger(__name__)


class PowerSwitch:
    """Carries out power tasks on one host. The caller ensures that no other work on the instance runs."""

    def __init__(
        self,
        host: Host,
        calls: BuildCalls,
        notifications: Notifications,
        within: time_limit.Within = time_limit.run_within,
        turns: Turns | None = None,
    ) -> None:
        self._host = host
        self._calls = calls
        self._notifications = notifications
        self._within = within
        self._turns = turns or Turns()

    def run(self, context: RequestContext, instance_uuid: str, spawn_within_s: float | None = None) -> None:
        """Carry out the task of the row, if it has one. If the conductor does not answer, it sends the order again.

        :param spawn_within_s: how long a guest may be made
        """
        context = context.about(instance_uuid=instance_uuid, host=self._host.name)
        try:
            instance = self._calls.find_instance(context, self._host.name, instance_uuid)
            if instance is None:
                reason = "the ledger does not have it on this host"
                orders.unwanted(orders.POWER, instance_uuid, self._host.name, reason)
            elif instance.task_state not in states.POWER_TASKS:
                LOG.debug("Dropping a power order that was already carried out")
            else:
                self._carry_out(context, instance, spawn_within_s)
                if instance.task_state == states.SHELVING:
                    self._go_on(context, instance_uuid, spawn_within_s)
        except (Unanswered, errors.FleetError) as silence:
            orders.unconfirmed(orders.POWER, instance_uuid, self._host.name, silence)

    def _go_on(self, context: RequestContext, instance_uuid: str, spawn_within_s: float | None) -> None:
        """Offload an instance that has just been shelved, if its row asks for it."""
        instance = self._calls.find_instance(context, self._host.name, instance_uuid)
        if instance is not None and instance.task_state == states.SHELVING_OFFLOADING:
            self._carry_out(context, instance, spawn_within_s)

    def _carry_out(self, context: RequestContext, instance: Instance, spawn_within_s: float | None) -> None:
        host, task = self._host.name, instance.task_state
        work = self._work(context, instance)
        limit_s = self._host.policy.driver_timeout_s
        if task in states.DISK_TASKS:
            limit_s = spawn_within_s and spawn_within_s * SPAWN_SHARE
        self._notifications.power(context, START, host, instance)
        failure: Exception | None = None
        try:
            failpoints.hit("agent.power.before")
            self._within(context, limit_s, self._turns.alone(instance.uuid, work))
        except Exception as failed:
            failure = failed
            expected = isinstance(failed, time_limit.Overrun | SpawnFailed | errors.FleetError)
            LOG.warning("Task %s failed: %s", task, _message(failed), exc_info=not expected)
        else:
            LOG.info("Task %s is done", task)
        if task == states.REBUILD_DISK and isinstance(failure, time_limit.Overrun):
            self._destroy(context, instance)
        failpoints.hit("agent.power.after")
        if task == states.SHELVING_OFFLOADING and failure is None:
            # The host releases first: the ledger must not offer room that this host still holds.
            self._host.release(instance.uuid)
        found = self._observe(instance)
        self._calls.power_done(context, instance, host, found, _message(failure) if failure else "")
        self._notifications.power(context, ERROR if failure else END, host, instance, failure)

    def _work(self, context: RequestContext, instance: Instance) -> Callable[[], None]:
        driver = self._host.driver
        if instance.task_state == states.REBUILD_DISK:
            return self._rebuild(context, instance)
        if instance.task_state == states.SHELVING_OFFLOADING:
            return lambda: self._offload(context, instance)
        if instance.task_state in (states.POWERING_OFF, states.SHELVING):
            return lambda: driver.power_off(context, instance)
        if instance.task_state in (states.POWERING_ON, states.UNSHELVING):
            return lambda: driver.power_on(context, instance)
        if instance.task_state == states.SUSPENDING:
            return lambda: driver.suspend(context, instance)
        if instance.task_state == states.RESUMING:
            return lambda: driver.resume(context, instance)
        return lambda: driver.reboot(context, instance, hard=instance.task_state == states.REBOOTING_HARD)

    def _rebuild(self, context: RequestContext, instance: Instance) -> Callable[[], None]:
        """Make the guest anew, with the volumes that it has. A guest that was stopped is then off.

        :raises Unanswered:
        """
        driver, host = self._host.driver, self._host
        volumes = reach.given(host, self._calls.find_attachments(context, host.name, instance.uuid))

        def rebuild() -> None:
            driver.rebuild(context, instance, instance.image, **volumes)
            if instance.vm_state == states.STOPPED:
                time_limit.require_wanted()
                driver.power_off(context, instance)

        return rebuild

    def _destroy(self, context: RequestContext, instance: Instance) -> None:
        """Destroy what an overdue rebuild has made, so that the driver's late work finds no guest to go on with.

        A former guest that is still there stays: the rebuild was fetching its image.
        """
        try:
            guest = self._host.driver.get_per_instance_usage().get(instance.uuid, {})
            if guest.get("attempt", instance.attempt) != instance.attempt:
                return
            self._host.destroy(context, instance.uuid)
        except Exception:
            LOG.exception("Cannot clean up after a rebuild that took too long")

    def _offload(self, context: RequestContext, instance: Instance) -> None:
        """Keep the disk of a guest where other hosts reach it, and destroy the guest. May be repeated."""
        self._host.driver.shelve(context, instance)
        time_limit.require_wanted()
        if instance.uuid in self._host.driver.list_instance_uuids():
            self._host.driver.destroy(context, instance.uuid)

    def _observe(self, instance: Instance) -> int:
        """Return the guest's power state; the row's if the driver cannot tell it."""
        try:
            found = self._host.driver.get_info(instance.uuid).state
        except errors.NotFound:
            return states.NOSTATE
        except Exception as failure:
            LOG.warning("The driver of %s cannot tell the state of the guest: %s", self._host.name, failure)
            return instance.power_state
        return found if found in states.POWER_NAMES else instance.power_state


def _message(failure: Exception) -> str:
    if isinstance(failure, errors.FleetError):
        return failure.message
    if isinstance(failure, SpawnFailed) and str(failure):
        return str(failure)
    return f"{type(failure).__name__}: {failure}"
