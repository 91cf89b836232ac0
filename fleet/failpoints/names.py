# SPDX-License-Identifier: Apache-2.0
"""All failpoints, in the order in which a build or a move passes them, with the event that has just happened.

:mod:`fleet.failpoints.injection` accepts no other name.
"""

from __future__ import annotations

from collections.abc import Mapping

BEFORE_COMMIT = "before_commit"
AFTER_COMMIT = "after_commit"

#: Transactions: each has a point before its commit and one after it.
BUILD_TRANSACTIONS: Mapping[str, str] = {
    "conductor.accept": "the request and its instances are written",
    "conductor.take": "a conductor has taken builds that were cast: scheduling → placing",
    "conductor.choose": "which hosts may claim builds is recorded: placing",
    "conductor.put_back": "the scheduler did not answer: placing → scheduling",
    "conductor.fail": "no host was found: ERROR with a fault",
    "conductor.claim": "the host's claim is recorded: placing → spawning, with usage",
    "conductor.finish": "the guest runs: spawning → active",
    "conductor.reschedule": "an attempt has failed: its claim is given back, the next begins or ERROR",
    "conductor.abort": "the build cannot succeed anywhere: ERROR with a fault",
    "conductor.terminate": "an instance is marked as going, or deleted at once",
    "conductor.destroyed": "the guest is gone: deleted, usage given back",
    "conductor.postpone": "the sweeper has taken a lost build to hand it out again",
    "conductor.time_out": "the build's deadline has passed: ERROR with a fault",
}

MOVE_TRANSACTIONS: Mapping[str, str] = {
    "conductor.move_accept": "a resize or an evacuation is asked for: its record is written",
    "conductor.move_take": "a conductor has taken it: accepted → preparing",
    "conductor.move_route": "the scheduler's choice is noted: that host may claim",
    "conductor.move_claim": "the destination's claim is recorded: preparing → pre-migrating, with usage",
    "conductor.move_advance": "a host has done its part: on to the next, or to the end",
    "conductor.move_fail": "a host cannot do its part: its claim is given back, the next host or undone",
    "conductor.move_refuse": "no host was found: the instance stays as it is",
    "conductor.move_overdue": "the sweeper goes on without a host that was not heard of",
    "conductor.move_confirm": "the resized instance is to stay",
    "conductor.move_revert": "the resized instance is to go back",
    "conductor.move_abort": "a live migration is to end; its guest stays",
}

VOLUME_TRANSACTIONS: Mapping[str, str] = {
    "conductor.snapshot": "a snapshot is asked for: its row is written, and its space claimed",
    "conductor.volume_accept": "a volume is asked for: its row is written",
    "conductor.volume_take": "a conductor has taken it: scheduling → placing",
    "conductor.volume_claim": "space is claimed on the pool's row: placing → working",
    "conductor.volume_refuse": "no pool was found: error",
    "conductor.volume_done": "the backend has made or removed the volume",
    "conductor.volume_fail": "the backend could not make it: the claim is given back, the next pool or error",
    "conductor.volume_unfit": "the pool of a volume has no room for its new type: another pool, or its old type",
    "conductor.volume_overdue": "the sweeper goes on without a backend that was not heard of",
    "conductor.volume_extend": "a volume is to grow: the growth is claimed",
    "conductor.volume_migrate": "a volume is to migrate: it waits for a decision",
    "conductor.volume_measure": "the size of what is to be managed is claimed on its pool",
    "conductor.volume_unmanage": "a volume is to go without its data",
    "conductor.volume_retype": "a volume is to get another type: it waits for a decision",
    "conductor.volume_delete": "the volume is to go",
}

#: Of builds that wait for room.
QUEUE_TRANSACTIONS: Mapping[str, str] = {
    "conductor.queue": "no host has room, and the build waits: placing → queued",
    "conductor.wake": "a change may help a build that waits: queued → scheduling",
    "conductor.recheck": "a build has waited for long and is tried again: queued → scheduling",
}

#: Of an instance that is neither built nor moved.
GUEST_TRANSACTIONS: Mapping[str, str] = {
    "conductor.guest": "an agent has found a guest in another power state than the row's: the row shows it",
    "conductor.guest_restart": "an agent asks about a guest that is down: its restart is counted, or it is given up",
}

#: Of an instance with a power task.
POWER_TRANSACTIONS: Mapping[str, str] = {
    "conductor.power_accept": "a power task is asked for: the row has it",
    "conductor.rebuild_accept": "a rebuild is asked for: the row has it, and the new image",
    "conductor.unshelve": "an instance without a host is unshelved: its build is accepted",
    "conductor.power_done": "the host has carried the task out, or cannot: the row shows it",
    "conductor.power_overdue": "the task's deadline has passed: the instance is as before",
}

#: Of a host that is down.
RECOVERY_TRANSACTIONS: Mapping[str, str] = {
    "conductor.recovery_look": "silent hosts are counted, and recoveries begun",
    "conductor.recovery_fence": "a conductor has taken the lease: it is to run the fence",
    "conductor.recovery_fenced": "the fence has ended: fencing → moving, or another try",
    "conductor.recovery_settle": "it is noted what became of guests that were moved",
    "conductor.recovery_plan": "guests have the hosts of a plan",
    "conductor.recovery_move": "the evacuation of a guest is accepted",
}

#: Of an aggregate that is balanced.
BALANCE_TRANSACTIONS: Mapping[str, str] = {
    "conductor.balance_look": "a conductor has taken a look at an aggregate",
    "conductor.balance_round": "what was seen is written, with the moves of a round",
    "conductor.balance_move": "the live migration of a move is accepted, or refused",
    "conductor.balance_follow": "how moves have ended is written",
}

#: Of a host in a maintenance.
MAINTENANCE_TRANSACTIONS: Mapping[str, str] = {
    "conductor.maintenance_begin": "a host takes no more builds: waiting → draining",
    "conductor.maintenance_settle": "cold moves are confirmed, and guests chosen; without any: draining → working",
    "conductor.maintenance_move": "the move of a guest is accepted, or refused",
    "conductor.maintenance_take": "a conductor has taken the lease: it is to run the hook",
    "conductor.maintenance_worked": "the hook has ended: working → returning, or failed",
    "conductor.maintenance_return": "the agent is back: returning → done",
}

#: Of a volume that a guest gets or gives back.
ATTACH_TRANSACTIONS: Mapping[str, str] = {
    "conductor.attach_accept": "a volume is to be attached: its attachment is written",
    "conductor.attach_detach": "a volume is to be detached",
    "conductor.attach_done": "the host has attached or detached it, or cannot: the ledger shows it",
    "conductor.attach_overdue": "the attachment's deadline has passed: it is undone, or the volume stays in use",
    "conductor.left_guest": "a host may have the guest of a build that was given up: it is ordered to remove it",
}

#: Between transactions.
BUILD_STEPS: Mapping[str, str] = {
    "conductor.hand_out.before": "accepted builds are about to be given to a thread of their conductor, or cast to a worker",
    "conductor.hand_out.after": "they were",
    "conductor.select.before": "the scheduler is about to be asked",
    "conductor.select.after": "it has answered",
    "conductor.cast.before": "a build is about to be cast to its host",
    "conductor.cast.after": "it was cast",
    "scheduler.refresh.before": "changes are about to be read from the database",
    "scheduler.decide.before": "the request is understood and the cache is fresh",
    "scheduler.decide.after": "the hosts are chosen and booked, the answer is not sent",
    "agent.order.before": "a build order has arrived and is not yet queued",
    "agent.claim.before": "a build has its slot, nothing is held",
    "agent.claim.after": "the host holds the claim, the ledger does not know it",
    "agent.record.after": "the ledger has the claim, the guest does not exist",
    "agent.spawn.before": "the driver is about to spawn",
    "agent.spawn.after": "the guest runs, the ledger does not know it",
    "agent.finish.after": "the instance is active, the agent has not ended its work",
    "agent.hand_back.before": "an attempt has failed and its claim is given back here, the ledger does not know it",
    "agent.hand_back.after": "the ledger knows it",
    "agent.destroy.before": "a guest is about to be destroyed",
    "agent.destroy.after": "it is gone, the ledger does not know it",
}

#: Of a spawn by the driver libvirt, between agent.spawn.before and agent.spawn.after.
LIBVIRT_STEPS: Mapping[str, str] = {
    "libvirt.directory.after": "the guest has its directory and its record",
    "libvirt.image.after": "the guest has the data of its image",
    "libvirt.disks.after": "the guest has all its files, libvirt does not know it",
    "libvirt.define.after": "libvirt knows the domain, it is off",
    "libvirt.start.after": "the domain runs",
}

#: Of a move to another host with the driver libvirt, between agent.move.before and agent.move.after.
COPY_STEPS: Mapping[str, str] = {
    "libvirt.copy.during": "a part of a guest's disks is copied to this host",
    "libvirt.copy.after": "the disks are copied; the guest cannot be started yet",
}

#: Of a live migration with the driver libvirt, on the source, between agent.move.before and agent.move.after.
LIVE_STEPS: Mapping[str, str] = {
    "libvirt.migrate.before": "the destination is prepared; nothing has left the source",
    "libvirt.migrate.during": "libvirt copies the running guest",
    "libvirt.migrate.after": "the guest runs on the destination; the ledger does not know it",
}

MOVE_STEPS: Mapping[str, str] = {
    "agent.move_claim.before": "an order to take an instance in has its turn, nothing is held",
    "agent.move_claim.after": "the destination holds the claim, the ledger does not know it",
    "agent.move.before": "the driver is about to do its part of a move",
    "agent.move.after": "it is done, the ledger does not know it",
}

VOLUME_STEPS: Mapping[str, str] = {
    "agent.volume.before": "the driver is about to make a volume",
    "agent.volume.after": "it is made, the ledger does not know it",
    "agent.migrate.before": "the agent of the destination is about to copy a volume",
    "agent.migrate.after": "the volume is copied, the ledger does not know it",
    "agent.leave.before": "an agent is about to remove what a volume has left",
    "agent.leave.after": "it is removed, the ledger does not know it",
    "agent.manage.before": "the agent is about to read the size of what is to be managed, or to make it the volume",
    "agent.manage.after": "it has the name of the volume, the ledger does not know it",
    "agent.unmanage.before": "a volume is about to lose its name, and to keep its data",
    "agent.unmanage.after": "it has lost it, the ledger does not know it",
    "agent.retype.before": "the driver is about to adapt a volume to its new type",
    "agent.retype.after": "it is adapted, the ledger does not know it",
    "agent.extend.before": "the driver is about to extend a volume",
    "agent.extend.after": "it is extended, the ledger does not know it",
}

POWER_STEPS: Mapping[str, str] = {
    "agent.power.before": "the driver is about to carry a power task out",
    "agent.power.after": "it has done it, the ledger does not know it",
}

ATTACH_STEPS: Mapping[str, str] = {
    "agent.volumes.after": "the host has read the volumes that a guest is built with, the guest does not exist",
    "agent.attach.before": "the driver is about to attach a volume to a guest",
    "agent.attach.after": "it is attached, the ledger does not know it",
    "agent.detach.before": "the driver is about to detach a volume from a guest",
    "agent.detach.after": "it is detached, the ledger does not know it",
}

TRANSACTIONS = {
    **BUILD_TRANSACTIONS,
    **QUEUE_TRANSACTIONS,
    **MOVE_TRANSACTIONS,
    **VOLUME_TRANSACTIONS,
    **GUEST_TRANSACTIONS,
    **POWER_TRANSACTIONS,
    **ATTACH_TRANSACTIONS,
    **RECOVERY_TRANSACTIONS,
    **BALANCE_TRANSACTIONS,
    **MAINTENANCE_TRANSACTIONS,
}
STEPS = {
    **BUILD_STEPS,
    **LIBVIRT_STEPS,
    **COPY_STEPS,
    **LIVE_STEPS,
    **MOVE_STEPS,
    **VOLUME_STEPS,
    **POWER_STEPS,
    **ATTACH_STEPS,
}


def _names(transactions: Mapping[str, str], steps: Mapping[str, str]) -> dict[str, str]:
    return {
        **{f"{step}.{BEFORE_COMMIT}": f"{what}; not committed" for step, what in transactions.items()},
        **{f"{step}.{AFTER_COMMIT}": f"{what}; committed, nobody told" for step, what in transactions.items()},
        **steps,
    }


BUILD_NAMES: Mapping[str, str] = _names(BUILD_TRANSACTIONS, BUILD_STEPS)
MOVE_NAMES: Mapping[str, str] = _names(MOVE_TRANSACTIONS, MOVE_STEPS)
VOLUME_NAMES: Mapping[str, str] = _names(VOLUME_TRANSACTIONS, VOLUME_STEPS)
GUEST_NAMES: Mapping[str, str] = _names(GUEST_TRANSACTIONS, {})
POWER_NAMES: Mapping[str, str] = _names(POWER_TRANSACTIONS, POWER_STEPS)
ATTACH_NAMES: Mapping[str, str] = _names(ATTACH_TRANSACTIONS, ATTACH_STEPS)
QUEUE_NAMES: Mapping[str, str] = _names(QUEUE_TRANSACTIONS, {})
RECOVERY_NAMES: Mapping[str, str] = _names(RECOVERY_TRANSACTIONS, {})
BALANCE_NAMES: Mapping[str, str] = _names(BALANCE_TRANSACTIONS, {})
MAINTENANCE_NAMES: Mapping[str, str] = _names(MAINTENANCE_TRANSACTIONS, {})
NAMES: Mapping[str, str] = {
    **BUILD_NAMES,
    **QUEUE_NAMES,
    **MOVE_NAMES,
    **VOLUME_NAMES,
    **GUEST_NAMES,
    **POWER_NAMES,
    **ATTACH_NAMES,
    **RECOVERY_NAMES,
    **BALANCE_NAMES,
    **MAINTENANCE_NAMES,
    **LIBVIRT_STEPS,
    **COPY_STEPS,
    **LIVE_STEPS,
}
