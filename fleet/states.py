# SPDX-License-Identifier: Apache-2.0
"""The life of an instance row: ``(vm_state, task_state)``, moved only by compare-and-set.

::

    create ──▶ building/scheduling ◀───────────────┐   (at once ``placing`` if the accepting conductor places it)
                 │ a conductor takes the build     │ a worker was lost: the sweeper hands it back
                 ▼                                 │
               building/placing ───────────────────┘
                 │ the host claimed        ▲
                 ▼                         │ failed: attempt + 1, next alternate
               building/spawning ──────────┘
                 │ the driver is done
                 ▼
               active/-                      any of these ──▶ error/-   (a fault says why)
                                             any of these ──▶ */deleting ──▶ deleted/-

    active/- ── stop ──▶ active/powering-off ──▶ stopped/- ── start ──▶ stopped/powering-on ──▶ active/-
    active/- ── reboot ──▶ active/rebooting, or active/rebooting_hard ──▶ active/-
    active/- ── shelve ──▶ active/shelving ──▶ shelved/- ── unshelve ──▶ shelved/unshelving ──▶ active/-
    shelved/- ── offload ──▶ shelved/shelving_offloading ──▶ shelved_offloaded/-, on no host
    shelved_offloaded/- ── unshelve ──▶ building/scheduling ──▶ … ──▶ active/-, or shelved_offloaded/- with a fault
    active/- ── rebuild ──▶ active/rebuild_block_device_mapping ──▶ active/-, or error/- with a fault
    active/- ── suspend ──▶ active/suspending ──▶ suspended/- ── resume ──▶ suspended/resuming ──▶ active/-

    building/placing ── no host has room, and the request waits ──▶ building/queued ── woken ──▶ building/scheduling

An order that its host has not tried (not begun, never arrived, claim refused) goes from ``placing`` to the next alternate
or back to ``scheduling``, at the same attempt.

Every move names the state and the attempt it expects; a late or repeated message finds the row moved on and does
nothing. ``step_deadline`` is when the sweeper may act on the present step, ``deadline`` when the whole build, or the power
task, must end. A power task that does not end returns to the state before it.
An active instance may be moved to another host or flavor: ``fleet.move_states``.
"""

from __future__ import annotations

import types
from typing import Final

BUILDING: Final = "building"
ACTIVE: Final = "active"
#: Moved to another flavor, and not confirmed yet.
RESIZED: Final = "resized"
#: Switched off by its owner.
STOPPED: Final = "stopped"
#: Does not run, and keeps its memory, by its owner's wish. The guest's power state is SHUTDOWN or SUSPENDED.
VM_SUSPENDED: Final = "suspended"
#: Switched off by its owner for a long time; it keeps its host.
SHELVED: Final = "shelved"
#: Shelved, and on no host. Its disk is where other hosts reach it.
SHELVED_OFFLOADED: Final = "shelved_offloaded"
ERROR: Final = "error"
DELETED: Final = "deleted"

#: Waits for room: the scheduler had none.
QUEUED: Final = "queued"
SCHEDULING: Final = "scheduling"
PLACING: Final = "placing"
SPAWNING: Final = "spawning"
DELETING: Final = "deleting"

# Tasks of an instance that is being moved.
RESIZE_PREP: Final = "resize_prep"
RESIZE_MIGRATING: Final = "resize_migrating"
RESIZE_FINISH: Final = "resize_finish"
RESIZE_CONFIRMING: Final = "resize_confirming"
RESIZE_REVERTING: Final = "resize_reverting"
REBUILDING: Final = "rebuilding"
REBUILD_SPAWNING: Final = "rebuild_spawning"
MIGRATING_PREP: Final = "migrating_prep"
MIGRATING: Final = "migrating"

#: Made anew from an image, on its host. nova's name of this part of a rebuild; its others are those of an evacuation.
REBUILD_DISK: Final = "rebuild_block_device_mapping"

# Tasks of an instance whose guest is switched off, on, or off and on, or suspended and resumed.
POWERING_OFF: Final = "powering-off"
POWERING_ON: Final = "powering-on"
REBOOTING: Final = "rebooting"
REBOOTING_HARD: Final = "rebooting_hard"
SUSPENDING: Final = "suspending"
RESUMING: Final = "resuming"
SHELVING: Final = "shelving"
UNSHELVING: Final = "unshelving"
SHELVING_OFFLOADING: Final = "shelving_offloading"

#: Step of an order that an agent hands back because it stops.
QUEUE_STEP: Final = "queue"
#: Step of an order to a host whose agent has no queue.
CAST_STEP: Final = "cast"
#: Step of an attempt that its host had no room for.
CLAIM_STEP: Final = "claim"
#: Step of an attempt that failed in its driver.
SPAWN_STEP: Final = "spawn"

#: Steps of a build that is under way. A queued build waits; nothing acts on it until it is woken.
BUILD_STEPS: Final = (SCHEDULING, PLACING, SPAWNING)
#: Tasks of a move that a destination has claimed.
CLAIMED_MOVES: Final = (RESIZE_MIGRATING, RESIZE_FINISH, RESIZE_REVERTING, REBUILD_SPAWNING, MIGRATING)

#: Tasks of ``conductor_stub.power``, with the event that their end writes.
POWER_TASKS: Final = types.MappingProxyType(
    {
        POWERING_OFF: "stop",
        POWERING_ON: "start",
        REBOOTING: "reboot",
        REBOOTING_HARD: "reboot",
        SUSPENDING: "suspend",
        RESUMING: "resume",
        REBUILD_DISK: "rebuild",
        SHELVING: "shelve",
        UNSHELVING: "unshelve",
        SHELVING_OFFLOADING: "shelve-offload",
    }
)

#: Of them, those that copy disks.
DISK_TASKS: Final = (REBUILD_DISK, SHELVING_OFFLOADING)

#: nova's power state codes.
NOSTATE: Final = 0
RUNNING: Final = 1
PAUSED: Final = 3
SHUTDOWN: Final = 4
CRASHED: Final = 6
SUSPENDED: Final = 7

POWER_NAMES: Final = types.MappingProxyType(
    {NOSTATE: "gone", RUNNING: "running", PAUSED: "paused", SHUTDOWN: "off", CRASHED: "crashed", SUSPENDED: "suspended"}
)
#: Power states of a guest that does not run, in words.
DOWN: Final = types.MappingProxyType(
    {NOSTATE: "the host has no such guest", SHUTDOWN: "it is off", CRASHED: "its process has ended"}
)
#: States of an instance whose guest does not run, as its owner wants it.
AT_REST: Final = (STOPPED, VM_SUSPENDED, SHELVED)
#: Instances with a guest whose power state the row shows, while nothing is done with them.
WATCHED: Final = (ACTIVE, *AT_REST, RESIZED, ERROR)
#: Those of all instances that are not deleted.
PRESENT: Final = (BUILDING, *WATCHED, SHELVED_OFFLOADED)
