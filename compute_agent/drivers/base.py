# SPDX-License-Identifier: Apache-2.0
"""The interface between an agent and a driver, with nova's method names, for one host.

The agent's work calls it; the drivers beside it implement it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from oslo_config import cfg

from fleet import errors, states
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, BootData, Flavor, Image, ImageRecord, Instance

#: Returns the record of an image by its id: where its bytes are. :raises errors.NotFound:
FindImage = Callable[[RequestContext, str], ImageRecord]
#: Returns, by its uuid, what an instance of this host finds at its first boot. :raises errors.NotFound:
FindBootData = Callable[[RequestContext, str], BootData]


@dataclasses.dataclass(frozen=True)
class GuestInfo:
    """A guest's present state: one of nova's power state codes (``fleet.states``)."""

    state: int = states.NOSTATE
    max_mem_kb: int = 0
    mem_kb: int = 0
    num_cpu: int = 0
    cpu_time_ns: int = 0


@dataclasses.dataclass(frozen=True)
class GuestUse:
    """Processor time of a guest since it was started, and the memory that it uses, if that is known."""

    cpu_time_ns: int
    memory_mb: int | None = None


class SpawnFailed(Exception):
    """A spawn failed for a known reason, which is the message. Another host is tried; no traceback is logged."""


class LiveMigrationFailed(SpawnFailed):
    """A live migration failed, and the guest runs on where it was. The message is the reason."""


class DestinationUnreachable(SpawnFailed):
    """The hypervisor here does not have the guest of a live migration any more, and its destination does not answer."""


class ComputeDriver:
    """Runs the guests of one host. The agent creates one driver for each host.

    Methods are called from several threads, but for one instance from one thread at a time. A guest is named by its
    instance's uuid. An exception of ``spawn`` sends the build to another host; ``BuildAbort`` ends it.
    """

    #: True if hosts and guests are simulated. The agent warns of it at start.
    simulated = False
    #: True if hosts of one process would report the same machine twice.
    one_host_only = False
    #: True if guests can start with volumes. Methods that start them then have the argument ``volumes``.
    takes_volumes = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def init_host(self, host: str) -> None:
        """Called once, before anything else. Afterwards guests of an earlier run must be known.

        :raises errors.ConfigError: the driver cannot work as configured; the agent does not start
        """
        raise NotImplementedError

    def use_images(self, find: FindImage) -> None:
        """Called once after :meth:`init_host`. A driver that needs no image's bytes leaves it out."""

    def use_boot_data(self, find: FindBootData) -> None:
        """Called once after :meth:`init_host`. A driver whose guests read no keys and no user data leaves it out."""

    def register_event_listener(self, changed: Callable[[str], object]) -> None:
        """Called before work begins, again if that fails: the driver may call ``changed`` with the uuid of a guest whose
        power state has changed. It returns at once.

        If the method is left out, audits find such changes.
        """

    def cleanup_host(self, host: str) -> None:
        """Called once, after everything else, and possibly right after :meth:`init_host`. Guests run on."""

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """Return the names of the nodes. :param refresh: read them from the hypervisor again"""
        raise NotImplementedError

    def get_available_resource(self, node: str) -> JSONObject | None:
        """Return the inventory of ``node``; empty or None if there is none. A node that never had one is then not tracked;
        one that had takes no builds until it has one again.

        Required: ``vcpus``, ``memory_mb`` (MB), ``local_gb`` (GB), ``numa_topology`` (None, a structure or its JSON).
        Optional: ``hypervisor_type``, ``hypervisor_version`` (base-1000 integer), ``cpu_info`` (JSON),
        ``disk_available_least`` (GB or None), ``stats``, ``supported_instances`` ([[architecture, hypervisor,
        mode]]).

        :raises errors.ReportRefused: the hypervisor does not answer; the host takes no builds until it does
        """
        raise NotImplementedError

    def spawn(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        """Start the guest on ``instance.node``, or raise and leave nothing.

        ``get_per_instance_usage`` must later return ``instance.attempt``.

        :param volumes: that the guest has from the beginning, as after :meth:`attach_volume`. A driver whose
            ``takes_volumes`` is False never gets any, and may leave the argument out
        """
        raise NotImplementedError

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        """End the guest and free its resources. A guest that does not exist is a success, with a warning."""
        raise NotImplementedError

    def rebuild(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        """Make the guest anew from the image of ``instance``, and start it; its former disks go. May be repeated: the guest
        may run, be off, be half made or not exist.

        :param volumes: as in :meth:`spawn`
        """
        is_there = instance.uuid in self.list_instance_uuids()
        time_limit.require_wanted()
        if is_there:
            self.destroy(context, instance.uuid)
        self.spawn(context, instance, image_meta, **({"volumes": volumes} if self.takes_volumes else {}))

    # Shelved guests that give their host back. A driver that can do it reports ``stats[host_report.SHELF]``: the same text
    # on hosts that share the kept disks.

    def shelve(self, context: RequestContext, instance: Instance) -> None:
        """Keep the root disk of a guest that is off where other hosts reach it, under the uuid and ``instance.attempt``.

        The guest is then destroyed, and :meth:`spawn` of an instance with this ``shelved_attempt`` starts from that disk.
        May be repeated, also after the guest was destroyed: a disk that is kept already is a success.
        """
        raise errors.NotSupported(what="Shelving a guest elsewhere", driver=type(self).__name__)

    # Moves (docs/move-instances.md). Guests of a driver without these methods cannot be resized; an evacuated guest
    # is spawned again.

    def take_over(
        self, context: RequestContext, instance: Instance, source: str, volumes: Sequence[Attachment] = ()
    ) -> bool:
        """Start the guest of the dead host ``source`` here, from its own disks. Return False if they are not on storage that
        the hosts share: the guest is then spawned from its image.

        Do not start a guest whose ``vm_state`` is in ``states.AT_REST``: its old host may still need its disks as they are.
        If it raises, nothing may be left here, and the disks must be as they were for another host. May be repeated.
        """
        return False

    def migrate_disk_and_power_off(
        self, context: RequestContext, instance: Instance, dest: str, flavor: Flavor
    ) -> None:
        """Switch the guest off, keep what is needed to start it again, and make its disk available to ``dest``.

        A guest that is already off is a success. ``dest`` may be this host. An exception undoes the move.

        :raises errors.NotFound: there is no such guest
        """
        raise errors.NotSupported(what="A resize", driver=type(self).__name__)

    def fetch_disks(
        self, context: RequestContext, instance: Instance, source: str, move: str, progress: Callable[[int], object]
    ) -> None:
        """Copy the disks of a switched-off guest from the host ``source``: it is resized to this host, with the flavor of
        ``instance``.

        It comes before :meth:`finish_migration`, and only if the hosts differ. If it raises, nothing may be left here. May
        be repeated, also after a copy that was given up. If the method is left out, nothing is copied.

        :param move: identifies the move
        :param progress: may be called with the copied part in per cent
        """

    def finish_migration(
        self,
        context: RequestContext,
        instance: Instance,
        image_meta: Image,
        volumes: Sequence[Attachment] | None = None,
    ) -> None:
        """Start the guest with ``instance``'s flavor on ``instance.node``. If that raises, the guest must be as before:
        absent, or off if it came from this host. May be repeated: a running guest is a success.

        :param volumes: that the guest has now; those that it had are of no account
        """
        raise errors.NotSupported(what="A resize", driver=type(self).__name__)

    def confirm_migration(self, context: RequestContext, instance_uuid: str) -> None:
        """Delete the files that were kept for a revert: the guest stays on its new host. May be repeated."""
        self.destroy(context, instance_uuid)

    def forget_former_size(self, context: RequestContext, instance_uuid: str) -> None:
        """Delete the files that were kept for a revert of a resize on this host. May be repeated.

        If the method is left out, nothing was kept.
        """

    def finish_revert_migration(
        self, context: RequestContext, instance: Instance, volumes: Sequence[Attachment] | None = None
    ) -> None:
        """Start the switched-off guest again with ``instance``'s flavor; a running guest is a success.

        A guest whose ``vm_state`` is in ``states.AT_REST`` gets its former size, and stays off.

        If the method is left out, nothing was switched off and nothing is done.

        :param volumes: that the guest has now; None: those that it had
        """

    # Live migrations. A driver that can do them reports ``stats[host_report.LIVE]``: the same text on hosts between which
    # guests may move.

    # ``stats[host_report.LIVE_TAKES]`` names what such guests may have besides memory and disks of their own. Only then have
    # the two methods their last argument.

    def pre_live_migration(
        self, context: RequestContext, instance: Instance, source: str, volumes: Sequence[Attachment] = ()
    ) -> None:
        """Prepare for a running guest that comes from the host ``source``. May be repeated.

        ``get_per_instance_usage`` must now return the guest. If it raises, nothing may be left here.

        :param volumes: that the guest has, and keeps: this host reaches their data
        """
        raise errors.NotSupported(what="A live migration", driver=type(self).__name__)

    def live_migration(
        self,
        context: RequestContext,
        instance: Instance,
        dest: str,
        progress: Callable[[int], object],
        begin: bool = True,
        cells: JSONObject | None = None,
    ) -> None:
        """Move a running guest to the host ``dest``, which has prepared for it. Return when the guest runs there.

        May be repeated, also while an earlier call still runs in the hypervisor: it is then followed. A guest that has left
        already is a success. Any other exception means that it is unknown where the guest is: the call is repeated.

        :param progress: may be called with the copied part in per cent
        :param begin: False: only follow one that is under way, to its end
        :param cells: the NUMA topology that the destination has claimed for the guest: it runs on other CPUs and cells there
        :raises LiveMigrationFailed: the guest has not left, and will not leave
        :raises DestinationUnreachable: it is not here; if the destination is off for certain, it has left
        :raises errors.NotSupported:
        """
        raise errors.NotSupported(what="A live migration", driver=type(self).__name__)

    def live_migration_abort(self, context: RequestContext, instance_uuid: str) -> None:
        """End the live migration of a guest, if one is under way: :meth:`live_migration`, in another thread, then raises.

        One that can no longer be ended completes.
        """

    def is_halfway(self, instance_uuid: str) -> bool:
        """Return True if a part of the memory of a guest that moves is here, and a part there. It cannot be undone then."""
        return False

    def waits_for(self, instance_uuid: str, host: str) -> bool:
        """Return True if a guest is halfway, and ``host`` may have the other part. False if ``host`` shows that it has not.

        Either part is worth keeping only as long as the other one is there.
        """
        return self.is_halfway(instance_uuid)

    def has_arrived(self, instance_uuid: str) -> bool:
        """Return True if a guest that was to come from a lost source has arrived for good, even if it is off by now.

        By default a guest has arrived if it runs.
        """
        try:
            return self.get_info(instance_uuid).state == states.RUNNING
        except errors.NotFound:
            return False

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance) -> None:
        """The guest has arrived from its source, for good. May be repeated.

        Afterwards ``get_per_instance_usage`` has no ``arriving``.
        """

    # Power. Guests of a driver without ``power_off`` and ``power_on`` cannot be stopped, started and rebooted. Each
    # method may be repeated, and ends within ``driver_timeout``. All raise errors.NotFound: there is no such guest.

    def power_off(self, context: RequestContext, instance: Instance) -> None:
        """Switch the guest off, and keep what is needed to start it again; one that is off already is a success.

        First ask the guest to end, and force it if it does not. Afterwards ``get_info`` returns ``states.SHUTDOWN``, also
        after a restart of the agent or of the machine, and ``get_per_instance_usage`` has no ``switched_off``.
        """
        raise errors.NotSupported(what="Stopping a guest", driver=type(self).__name__)

    def power_on(self, context: RequestContext, instance: Instance) -> None:
        """Start an existing guest that does not run; a running one is a success. ``lost_guest_action = restart`` uses
        it, too.
        """
        raise errors.NotSupported(what="Starting a guest again", driver=type(self).__name__)

    def reboot(self, context: RequestContext, instance: Instance, hard: bool = False) -> None:
        """End the guest and start it again. A guest that does not run is only started.

        :param hard: end the guest by force, without asking it first
        """
        self.power_off(context, instance)
        time_limit.require_wanted()
        self.power_on(context, instance)

    # Volumes. Guests of a driver without these methods have none. Each method may be repeated, and ends within
    # ``driver_timeout``. All raise errors.NotFound: there is no such guest.

    def attach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        """Give the guest the volume: now if it runs, and whenever it starts, until it is detached. One that it has
        already is a success. After an exception the caller detaches it.

        The guest finds the volume by its serial number: the first 20 characters of ``attachment.volume_uuid``.
        """
        raise errors.NotSupported(what="Attaching a volume", driver=type(self).__name__)

    def detach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        """Detach the volume, and return when no process of this host has it open. A volume that the guest does not have
        counts as detached.
        """
        raise errors.NotSupported(what="Detaching a volume", driver=type(self).__name__)

    def attached_volumes(self) -> dict[str, list[str]]:
        """Return for each guest that has volumes their uuids."""
        return {}

    def suspend(self, context: RequestContext, instance: Instance) -> None:
        """Halt a running guest, and keep its memory until :meth:`resume`; one that is halted already is a success.

        Afterwards ``get_info`` returns ``states.SHUTDOWN`` or ``states.SUSPENDED``, also after a restart of the agent, and
        ``get_per_instance_usage`` has no ``switched_off``. Destroying the guest removes its memory, too.
        """
        raise errors.NotSupported(what="Suspending a guest", driver=type(self).__name__)

    def resume(self, context: RequestContext, instance: Instance) -> None:
        """Let a suspended guest continue; a running one is a success. If its memory is lost, it boots."""
        self.power_on(context, instance)

    def get_guest_uses(self) -> dict[str, GuestUse]:
        """Return the usage of each running guest. If the method is left out, it is read from :meth:`get_info`, one by one.

        It is called with each audit if ``compute_monitors`` has ``guests``.
        """
        uses = {}
        for uuid in self.list_instance_uuids():
            try:
                info = self.get_info(uuid)
            except errors.NotFound:
                continue
            if info.state == states.RUNNING:
                uses[uuid] = GuestUse(info.cpu_time_ns)
        return uses

    def get_console_output(self, context: RequestContext, instance_uuid: str, most_bytes: int) -> bytes:
        """Return the end of the guest's output on its console.

        :raises errors.NotFound: there is no such guest
        """
        raise errors.NotSupported(what="A console", driver=type(self).__name__)

    def list_instance_uuids(self) -> list[str]:
        """Return all guests on all nodes, running or not."""
        return list(self.get_per_instance_usage())

    def get_info(self, instance_uuid: str) -> GuestInfo:
        """Return the guest's actual state at this moment. Each audit compares it with the ledger.

        :raises errors.NotFound: there is no such guest
        """
        raise NotImplementedError

    def estimate_instance_overhead(self, flavor: Flavor) -> dict[str, int]:
        """Return what the hypervisor needs besides the flavor: ``memory_mb``."""
        return {"memory_mb": 0}

    def get_per_instance_usage(self) -> dict[str, JSONObject]:
        """Return for each guest's uuid: ``uuid``, ``memory_mb``, ``node``; ``attempt`` if this driver spawned it.

        Three more keys are marks of a move. If the move has ended and a mark is still there, the agent repeats the step that
        removes the mark.

        - ``switched_off``: it was switched off for a move
        - ``arriving``: it was prepared by :meth:`pre_live_migration`, and not taken in yet
        - ``resized_to``: what undoes a resize on this host is kept; the new ``vcpus``, ``memory_mb`` and ``disk_gb``. A
          :meth:`finish_revert_migration` then also ends the guest if it runs. The next move of the guest ends it first

        A guest without ``attempt`` belongs to something else: it is counted and reported, never destroyed.
        """
        return {}
