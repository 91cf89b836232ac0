# SPDX-License-Identifier: Apache-2.0
"""Brings a host, its driver's guests and the ledger to one view: at the start, and where a comparison finds a difference.

No other work on the instance runs meanwhile.

| The ledger says      | Meaning                                   | Done                                          |
|----------------------|-------------------------------------------|-----------------------------------------------|
| building, spawning   | the agent died, or got no answer          | guest destroyed, build handed back            |
| deleting             | the agent died before or while destroying | guest destroyed, ledger told                  |
| anything else, here  | it lives here                             | tracked; what a move that is over left undone |
|                      |                                           | is done; its power state is reported          |
| a move to or from    | the conductor asks again for what is left | what it and the instance hold here is counted |
| nothing, claim not   | the call may still be on its way          | attempt handed back, what it holds given back |
| answered             |                                           |                                               |
| nothing, guest ours  | its build went elsewhere meanwhile        | guest destroyed (fenced)                      |
| nothing, guest alien | an orphan                                 | nothing: the audit counts and reports it      |
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.node.host import Host
from compute_agent.work import former_resize
from compute_agent.work.build import failure_record
from compute_agent.work.power_sync import PowerSync
from fleet import errors, states
from fleet.agent import time_limit
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import FailedAttempt, Instance, Migration

LOG = logging.getLogger(__name__)

AGENT_RESTART = "agent-restart"
#: Of ``get_per_instance_usage``: a driver removes each by the last step of a move.
_MARKS = ("switched_off", "arriving", "resized_to")


class ClaimUnanswered(Exception):
    """The reason of an attempt that is given up because the ledger has not answered its claim."""


class AgentRestarted(Exception):
    """The reason of a build that is handed back after this host's agent restarted."""


def recover(
    context: RequestContext,
    host: Host,
    calls: BuildCalls,
    moves: MoveCalls | None = None,
    watch: PowerSync | None = None,
) -> None:
    """Recover a host before it takes any work, so nothing competes with a build.

    :raises patience.Unanswered: only when the agent stops
    :raises time_limit.Overrun: the driver does not answer
    """
    host.set_nodes(host.ask_for_audit(lambda: host.driver.get_available_nodes(refresh=True)))
    # Moves first: an instance whose move to this host ends in between is among those that are read after it.
    moving = moves.of_host(context, host.name) if moves else {}
    instances = {instance.uuid: instance for instance in calls.get_host_instances(context, host.name)}
    guests = host.ask_for_audit(host.driver.get_per_instance_usage)
    for uuid in own_guests(guests) - instances.keys() - moving.keys():
        with _apart(host, uuid):
            _fence(context, host, calls, uuid, has_guest=True)
    for uuid, migration in moving.items():
        with _apart(host, uuid):
            _recover_move(context, host, calls, migration, uuid in guests)
    for uuid in instances.keys() - moving.keys():
        with _apart(host, uuid):
            _recover_instance(context, host, calls, instances[uuid], guests.get(uuid), watch)
    LOG.info(
        "Host %s is recovered: %d instances in the ledger, %d guests found", host.name, len(instances), len(guests)
    )


@contextlib.contextmanager
def _apart(host: Host, uuid: str) -> Iterator[None]:
    """Log what goes wrong with one instance: it keeps no other from being served."""
    try:
        yield
    except (Unanswered, time_limit.Overrun):
        raise
    except Exception:
        LOG.exception("Instance %s on %s is not recovered; the next comparison tries again", uuid, host.name)


def settle(
    context: RequestContext,
    host: Host,
    calls: BuildCalls,
    uuid: str,
    moves: MoveCalls | None = None,
    watch: PowerSync | None = None,
) -> None:
    """Settle one instance that a comparison found different, in its queue, so that no other work on it runs.

    :raises patience.Unanswered:
    """
    context = context.about(instance_uuid=uuid, host=host.name)
    migration = moves.find(context, host.name, uuid) if moves else None
    instance = None if migration else calls.find_instance(context, host.name, uuid)
    guests = host.driver.get_per_instance_usage()
    if migration is not None:
        _recover_move(context, host, calls, migration, uuid in guests)
        if watch is not None and migration.instance.host == host.name:
            watch.settle(context, host, migration.instance)
    elif instance is not None:
        _recover_instance(context, host, calls, instance, guests.get(uuid), watch)
    elif uuid in host.tracked() or uuid in own_guests(guests):
        _fence(context, host, calls, uuid, uuid in guests)


def own_guests(guests: Mapping[str, Mapping[str, object]]) -> set[str]:
    """Return guests that an agent of this fleet spawned."""
    return {uuid for uuid, usage in guests.items() if usage.get("attempt") is not None}


def unfinished(guests: Mapping[str, Mapping[str, object]]) -> set[str]:
    """Return guests with a mark of a move, which may have ended without this host."""
    return {uuid for uuid, usage in guests.items() if any(usage.get(mark) for mark in _MARKS)}


def _fence(context: RequestContext, host: Host, calls: BuildCalls, uuid: str, has_guest: bool) -> None:
    """Release an instance that the ledger does not have here.

    :param has_guest: a guest that an agent of this fleet spawned exists
    """
    LOG.warning("Releasing what %s holds on %s: the ledger does not have it there", uuid, host.name)
    if not _is_gone(context, host, uuid, has_guest):
        host.orphan(uuid)
        return
    _give_up_undecided(context, host, calls, uuid)
    host.release(uuid)
    if has_guest:
        _tell_gone(context, host, calls, uuid)


def _give_up_undecided(context: RequestContext, host: Host, calls: BuildCalls, uuid: str) -> None:
    """End an attempt whose claim was not answered.

    The call may still be on its way; the ledger would then count room that this host has given out again. Reporting
    the end of the attempt first makes a late claim stale.

    :raises patience.Unanswered:
    """
    undecided = host.undecided.get(uuid)
    if undecided is None:
        return
    silence = ClaimUnanswered(f"The claim of {host.name} was not answered in time")
    failure = failure_record(states.CLAIM_STEP, silence, 0.0)
    failed = FailedAttempt(uuid, undecided.attempt, host.name, undecided.node, failure)
    _end_attempt(context, host, calls, failed, undecided.alternates)


def _end_attempt(
    context: RequestContext, host: Host, calls: BuildCalls, failed: FailedAttempt, alternates: Sequence[Any] = ()
) -> None:
    """End the attempt in the ledger; the build may continue elsewhere."""
    try:
        calls.reschedule(context, failed, list(alternates))
    except (errors.StaleBuild, errors.NotFound) as stale:
        LOG.info("The build has moved on: %s", stale.message)
    host.undecided.pop(failed.instance_uuid, None)


def _tell_gone(context: RequestContext, host: Host, calls: BuildCalls, uuid: str) -> None:
    """Report that the guest is gone: the instance is being deleted, or was evacuated from here and its record waits for
    this.
    """
    try:
        calls.instance_destroyed(context, uuid, host.name)
    except (Unanswered, errors.FleetError) as unheard:
        LOG.info("Cannot report to the conductor that a guest is gone: %s", unheard)


def _recover_move(
    context: RequestContext, host: Host, calls: BuildCalls, migration: Migration, has_guest: bool
) -> None:
    """Count the move. The conductor sends the order for this host's part again."""
    instance = migration.instance
    about = context.about(
        instance_uuid=instance.uuid, attempt=migration.attempt, host=host.name, migration=migration.uuid
    )
    host.count(instance.uuid, instance, migration)
    if instance.task_state != states.DELETING or not _is_gone(about, host, instance.uuid, has_guest):
        return
    host.release(instance.uuid)
    _tell_gone(about, host, calls, instance.uuid)


def _recover_instance(
    context: RequestContext,
    host: Host,
    calls: BuildCalls,
    instance: Instance,
    guest: Mapping[str, object] | None,
    watch: PowerSync | None = None,
) -> None:
    has_guest = guest is not None
    about = context.about(instance_uuid=instance.uuid, attempt=instance.attempt, host=host.name)
    try:
        if instance.task_state == states.DELETING:
            _finish_termination(about, host, calls, instance, has_guest)
        elif instance.task_state == states.SPAWNING:
            _hand_back(about, host, calls, instance, has_guest)
        else:
            _track(host, instance)
            ended = guest is not None and instance.task_state is None and _end_move(about, host, instance, guest)
            if not ended and watch is not None:
                watch.settle(about, host, instance)
    except (errors.StaleBuild, errors.NotFound) as stale:
        LOG.info("Nothing to recover: %s", stale.message)
    except Unanswered as unanswered:
        LOG.warning("Continuing; the conductor will find this instance: %s", unanswered)


def _finish_termination(
    context: RequestContext, host: Host, calls: BuildCalls, instance: Instance, has_guest: bool
) -> None:
    LOG.info("Ending the termination that this host had begun")
    if not _is_gone(context, host, instance.uuid, has_guest):
        if not host.is_orphan(instance.uuid):
            _track(host, instance)
        return
    host.release(instance.uuid)
    calls.instance_destroyed(context, instance.uuid, host.name)


def _hand_back(context: RequestContext, host: Host, calls: BuildCalls, instance: Instance, has_guest: bool) -> None:
    LOG.info("Handing back a build that the ledger has as spawning here, without an agent working on it")
    attempt = functools.partial(FailedAttempt, instance.uuid, instance.attempt, host.name, instance.node)
    if not _is_gone(context, host, instance.uuid, has_guest):
        reason = f"its guest on {host.name} could not be destroyed after a restart, not rescheduling"
        abort = errors.BuildAbort(instance_uuid=instance.uuid, reason=reason)
        host.orphan(instance.uuid)
        calls.abort_build(context, attempt(failure_record(AGENT_RESTART, abort, 0.0)))
        return
    restarted = AgentRestarted(f"The agent of {host.name} was restarted, or cut off, while the instance was spawning")
    # First, so that this host does not give out the room again while the ledger still counts it.
    _end_attempt(context, host, calls, attempt(failure_record(AGENT_RESTART, restarted, 0.0)))
    host.release(instance.uuid)


def _end_move(context: RequestContext, host: Host, instance: Instance, guest: Mapping[str, object]) -> bool:
    """Finish this host's part of a move that has ended without it. Return False if nothing is left.

    A failure is logged: the mark stays, so the next comparison tries again.
    """
    driver, uuid = host.driver, instance.uuid
    if guest.get("switched_off"):
        step, end = "Starting", functools.partial(driver.finish_revert_migration, context, instance)
    elif instance.vm_state != states.ACTIVE:
        return False
    elif guest.get("arriving"):
        step, end = "Taking in", functools.partial(driver.post_live_migration_at_destination, context, instance)
    elif former_resize.is_left(guest):
        step, end = former_resize.step(context, driver, instance, guest)
    else:
        return False
    LOG.warning("%s guest %s: its move has ended without this host", step, uuid)
    try:
        end()
    except Exception:
        LOG.exception("%s guest %s on %s has failed", step, uuid, host.name)
    return True


def _track(host: Host, instance: Instance) -> None:
    try:
        host.tracker(instance.node).track(instance)
    except errors.NotFound as unknown:
        LOG.warning("Instance %s is not tracked: %s", instance.uuid, unknown.message)


def _is_gone(context: RequestContext, host: Host, instance_uuid: str, has_guest: bool) -> bool:
    """Destroy the guest. Return False if it may exist all the same.

    The driver may list the guest of a build that hangs later: then only the result of its destroy counts.
    """
    if not has_guest and not host.is_orphan(instance_uuid):
        return True
    try:
        host.destroy(context, instance_uuid)
    except Exception:
        LOG.exception("Cannot destroy guest %s on %s; it stays in the usage of the host", instance_uuid, host.name)
        return False
    return True
