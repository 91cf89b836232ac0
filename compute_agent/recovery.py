# SPDX-License-Identifier: Apache-2.0
"""What an agent does first: bring its host, its driver's guests and the ledger to one view after whatever happened.

| The ledger says      | Meaning                                   | Done                                          |
|----------------------|-------------------------------------------|-----------------------------------------------|
| building, spawning   | the agent died in the middle of a spawn   | guest destroyed, build handed back            |
| deleting             | the agent died before or while destroying | guest destroyed, ledger told                  |
| anything else, here  | it lives here                             | tracked                                       |
| nothing, guest ours  | its build went elsewhere meanwhile        | guest destroyed (fenced)                      |
| nothing, guest alien | an orphan                                 | nothing: the audit counts and reports it      |
"""

from __future__ import annotations

from oslo_log import log as logging

from compute_agent.build import failure_record
from compute_agent.host import Host
from compute_agent.ledger import Ledger, Unanswered
from fleet import errors, states
from fleet.context import RequestContext
from fleet.objects import Instance

LOG = logging.getLogger(__name__)

AGENT_RESTART = "agent-restart"


class AgentRestarted(Exception):
    """Why a build that this host had claimed is handed back."""


def recover(context: RequestContext, host: Host, ledger: Ledger) -> None:
    """Before the host takes any work: nothing here races with a build.

    :raises ledger.Unanswered: only when the agent is told to stop
    """
    host.set_nodes(host.driver.get_available_nodes(refresh=True))
    instances = ledger.get_host_instances(context, host.name)
    guests = host.driver.get_per_instance_usage()
    for uuid, usage in guests.items():
        if usage.get("attempt") is not None and uuid not in {instance.uuid for instance in instances}:
            LOG.warning("Destroying guest %s of attempt %s: its build went elsewhere", uuid, usage["attempt"])
            _destroy(context, host, uuid)
    for instance in instances:
        _recover_instance(context, host, ledger, instance, instance.uuid in guests)
    LOG.info("Host %s has %d instances in the ledger and had %d guests", host.name, len(instances), len(guests))


def _recover_instance(context: RequestContext, host: Host, ledger: Ledger, instance: Instance, has_guest: bool) -> None:
    about = context.about(instance_uuid=instance.uuid, attempt=instance.attempt, host=host.name)
    try:
        if instance.task_state == states.DELETING:
            _finish_termination(about, host, ledger, instance, has_guest)
        elif instance.task_state == states.SPAWNING:
            _hand_back(about, host, ledger, instance, has_guest)
        else:
            _track(host, instance, has_guest)
    except (errors.StaleBuild, errors.NotFound) as stale:
        LOG.info("Nothing to recover: %s", stale.message)
    except Unanswered as unanswered:
        LOG.warning("Going on, the conductor will find this instance: %s", unanswered)


def _finish_termination(
    context: RequestContext, host: Host, ledger: Ledger, instance: Instance, has_guest: bool
) -> None:
    LOG.info("Ending the termination that this host had begun")
    if has_guest and not _destroy(context, host, instance.uuid):
        _track(host, instance, has_guest)
        return
    ledger.instance_destroyed(context, instance.uuid, host.name)


def _hand_back(context: RequestContext, host: Host, ledger: Ledger, instance: Instance, has_guest: bool) -> None:
    LOG.info("Handing back a build that this host was spawning when its agent ended")
    where = (instance.uuid, instance.attempt, host.name, instance.node)
    if has_guest and not _destroy(context, host, instance.uuid):
        reason = f"its guest on {host.name} could not be destroyed after a restart, not rescheduling"
        abort = errors.BuildAbort(instance_uuid=instance.uuid, reason=reason)
        ledger.abort_build(context, *where, failure_record(AGENT_RESTART, abort, 0.0))
        return
    restarted = AgentRestarted(f"The agent of {host.name} was restarted while the instance was spawning")
    ledger.reschedule(context, *where, failure_record(AGENT_RESTART, restarted, 0.0), [])


def _track(host: Host, instance: Instance, has_guest: bool) -> None:
    try:
        host.tracker(instance.node).track(instance)
    except errors.NotFound as unknown:
        LOG.warning("Instance %s is not tracked: %s", instance.uuid, unknown.message)
        return
    if instance.vm_state == states.ACTIVE and not has_guest:
        LOG.warning("Instance %s is active in the ledger, but has no guest on %s", instance.uuid, host.name)


def _destroy(context: RequestContext, host: Host, instance_uuid: str) -> bool:
    try:
        host.driver.destroy(context, instance_uuid)
    except Exception:
        LOG.exception("Cannot destroy guest %s on %s; it is counted as it is", instance_uuid, host.name)
        return False
    return True
