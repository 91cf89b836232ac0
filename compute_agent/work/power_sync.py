# SPDX-License-Identifier: Apache-2.0
"""Compares the power state of guests with the ledger, reports differences, and acts on guests that do not run.

Called by :mod:`compute_agent.agent` and :mod:`compute_agent.work.comparison`. An audit reads the driver's state of
every instance that the host holds. The conductor names the instances whose row differs. Each of them is checked again
in its instance's queue, so that a guest that is being built, moved or destroyed is not treated as lost. The row
changes by compare-and-set. The first audit reports. If a later audit still finds the guest down, it acts as
``lost_guest_action`` says. A guest that a supervisor or an operator has started in the meantime is left alone.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping

from oslo_log import log as logging

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.notifications import Notifications
from compute_agent.node.host import Host
from compute_agent.work.restarts import Restarts
from fleet import errors, states
from fleet.agent import time_limit
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import Instance
from fleet.objects.guest_restarts import Fate, Next, RestartLimits
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

NOTHING, RESTART, ERROR = "nothing", "restart", "error"


class PowerSync:
    """One object for all hosts of a process. It keeps which failed restarts it has warned of.

    :param action: NOTHING, RESTART or ERROR
    :param restarts: the limits; it counts while the conductors are too old to do so
    :param moves: whether an instance that has used its restarts up moves to another host
    """

    def __init__(
        self,
        calls: BuildCalls,
        notifications: Notifications,
        action: str = NOTHING,
        restarts: Restarts | None = None,
        moves: bool = False,
    ) -> None:
        self._calls = calls
        self._notifications = notifications
        self._action = action
        self._restarts = restarts or Restarts(RestartLimits())
        self._moves = moves
        self._warned: dict[str, str] = {}

    def down(self, observed: Mapping[str, int]) -> Collection[str]:
        """Return the instances whose power state is checked; none if no action is configured."""
        if self._action == NOTHING:
            return ()
        return [uuid for uuid, state in observed.items() if state in states.DOWN]

    def settle(self, context: RequestContext, host: Host, instance: Instance) -> None:
        """Report a difference from the row, or act on a guest that is known to be down. No other work on the instance
        runs.

        If the conductor does not answer, the next audit does it.
        """
        try:
            self._settle(context, host, instance)
        except (Unanswered, errors.FleetError) as unsettled:
            LOG.info("The next audit checks the guest of instance %s again: %s", instance.uuid, unsettled)

    def noticed(self, context: RequestContext, host: Host, uuid: str) -> None:
        """Report the power state of a guest that the driver has announced. Actions are left to the audits."""
        try:
            instance = self._calls.find_instance(context, host.name, uuid)
            if instance is not None:
                self._settle(context, host, instance, acts=False)
        except (Unanswered, errors.FleetError) as unsettled:
            LOG.info("The next audit checks the guest of instance %s: %s", uuid, unsettled)

    def _settle(self, context: RequestContext, host: Host, instance: Instance, acts: bool = True) -> None:
        if instance.task_state is not None or instance.vm_state not in states.WATCHED:
            return
        state = observe(host, [instance.uuid]).get(instance.uuid)
        if state is None:
            return
        if state != instance.power_state:
            self._report(context, host, instance, state)
        elif state in states.DOWN and instance.vm_state == states.ACTIVE:
            if acts:
                self._act(context, host, instance, state)
        else:
            self._warned.pop(instance.uuid, None)

    def _report(self, context: RequestContext, host: Host, instance: Instance, state: int) -> None:
        if not self._calls.report_guest(context, instance, host.name, state):
            LOG.info("The row of instance %s has changed: its guest is checked again", instance.uuid)
            return
        name = states.POWER_NAMES[state]
        metrics.GUEST_CHANGES.labels(name).inc()
        if state in states.DOWN:
            LOG.error("The guest of instance %s on %s does not run: %s", instance.uuid, host.name, states.DOWN[state])
        elif instance.vm_state in states.AT_REST and state == states.RUNNING:
            known = instance.vm_state
            LOG.warning(
                "The guest of instance %s on %s is %s, and the instance is %s", instance.uuid, host.name, name, known
            )
        else:
            LOG.info("The guest of instance %s on %s is %s again", instance.uuid, host.name, name)
        self._notifications.power_state(context, host.name, instance, state)

    def _act(self, context: RequestContext, host: Host, instance: Instance, state: int) -> None:
        if self._action == RESTART:
            self._restart_within_limits(context, host, instance, state)
        elif self._action == ERROR:
            self._fail(context, host, instance, state, "its guest does not run")

    def _fail(self, context: RequestContext, host: Host, instance: Instance, state: int, reason: str) -> None:
        if self._calls.report_guest(context, instance, host.name, state, failed=True):
            metrics.GUEST_ACTIONS.labels(ERROR).inc()
            LOG.error("Instance %s is set to ERROR: %s", instance.uuid, reason)

    def _restart_within_limits(self, context: RequestContext, host: Host, instance: Instance, state: int) -> None:
        answer = self._calls.restart_guest(context, instance, host.name, self._restarts.limits, self._moves)
        if answer is None:
            self._restart_as_counted_here(context, host, instance, state)
            return
        fate, count, why = answer
        if fate is Fate.START:
            LOG.info("Restart %d of the guest of instance %s", count, instance.uuid)
            self._restart(context, host, instance)
        elif fate is Fate.MOVED:
            metrics.GUEST_ACTIONS.labels("move").inc()
            LOG.error("Instance %s moves to another host: %s", instance.uuid, why)
        elif fate is Fate.FAILED:
            metrics.GUEST_ACTIONS.labels(ERROR).inc()
            LOG.error("Instance %s is set to ERROR: %s", instance.uuid, why)

    def _restart_as_counted_here(self, context: RequestContext, host: Host, instance: Instance, state: int) -> None:
        due = self._restarts.next(instance.uuid)
        if due is Next.GIVE_UP:
            times, within_s = self._restarts.count(instance.uuid), self._restarts.limits.window_s
            reason = f"its guest was started {times} times within {within_s:g} s, and does not run"
            self._fail(context, host, instance, state, reason)
        elif due is Next.START:
            self._restarts.note(instance.uuid)
            self._restart(context, host, instance)

    def _restart(self, context: RequestContext, host: Host, instance: Instance) -> None:
        """Start the guest; the next audit reports the result."""
        try:
            limit_s = host.policy.driver_timeout_s
            time_limit.run_within(context, limit_s, lambda: host.driver.power_on(context, instance))
        except Exception as failure:
            reason = (
                failure.message if isinstance(failure, errors.FleetError) else f"{type(failure).__name__}: {failure}"
            )
            metrics.GUEST_ACTIONS.labels("restart failed").inc()
            if self._warned.get(instance.uuid) != reason:
                LOG.warning("Cannot start the guest of instance %s on %s: %s", instance.uuid, host.name, reason)
            self._warned[instance.uuid] = reason
            return
        self._warned.pop(instance.uuid, None)
        metrics.GUEST_ACTIONS.labels(RESTART).inc()
        LOG.warning("Started the guest of instance %s on %s again", instance.uuid, host.name)
        running = observe(host, [instance.uuid]).get(instance.uuid)
        if running is not None and running != instance.power_state:
            self._report(context, host, instance, running)


def observe(host: Host, uuids: Collection[str]) -> dict[str, int]:
    """Return the power state of each guest, NOSTATE if it is gone. Guests whose state the driver cannot tell are left
    out.

    A guest that is switched off for a move is left out, too: its move decides.
    """
    there = host.driver.get_per_instance_usage()
    found: dict[str, int] = {}
    failures: collections.Counter[str] = collections.Counter()
    for uuid in uuids:
        if uuid in there and there[uuid].get("switched_off"):
            continue
        try:
            state = host.driver.get_info(uuid).state if uuid in there else states.NOSTATE
        except errors.NotFound:
            found[uuid] = states.NOSTATE
            continue
        except Exception as failure:
            failures[f"{type(failure).__name__}: {failure}"] += 1
            continue
        # A driver that reports NOSTATE for an existing guest does not know its state.
        if state in states.POWER_NAMES and (state != states.NOSTATE or uuid not in there):
            found[uuid] = state
    for reason, count in failures.items():
        LOG.warning("The driver of %s cannot tell the state of %d guests: %s", host.name, count, reason)
    return found
