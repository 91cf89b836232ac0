# SPDX-License-Identifier: Apache-2.0
"""The interface between an agent and whatever runs its guests; nova's method names, for one host."""

from __future__ import annotations

import dataclasses
from typing import Any

from oslo_config import cfg

from fleet import errors, states
from fleet.context import RequestContext
from fleet.objects import Flavor, Image, Instance


@dataclasses.dataclass(frozen=True)
class GuestInfo:
    """A guest as it is now; ``state`` is one of nova's power state codes (``fleet.states``)."""

    state: int = states.NOSTATE
    max_mem_kb: int = 0
    mem_kb: int = 0
    num_cpu: int = 0
    cpu_time_ns: int = 0


class SpawnFailed(Exception):
    """A spawn failed for a reason that its message tells in full: the build goes on elsewhere, without a traceback."""


class ComputeDriver:
    """Runs the guests of one host. The agent makes one driver for each host that it serves.

    Methods are called from several threads at a time, but for one instance from one thread at a time. A guest is named
    by its instance's uuid. An exception out of ``spawn`` sends the build to another host; ``BuildAbort`` ends it.
    """

    #: Whether the hosts and their guests are invented. The agent warns of it when it starts.
    simulated = False
    #: Whether hosts of one process would report the same machine twice.
    one_host_only = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def init_host(self, host: str) -> None:
        """Called once, before anything else; guests of an earlier life must be known afterwards.

        :raises errors.ConfigError: the driver cannot work as configured; the agent does not start
        """
        raise NotImplementedError

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """Names of the nodes; ``refresh`` asks the hypervisor anew."""
        raise NotImplementedError

    def node_is_available(self, node: str) -> bool:
        return node in self.get_available_nodes() or node in self.get_available_nodes(refresh=True)

    def get_available_resource(self, node: str) -> dict[str, Any] | None:
        """The inventory of ``node``; empty or None when it cannot be told: the node is then not tracked.

        Required: ``vcpus``, ``memory_mb`` (MB), ``local_gb`` (GB), ``numa_topology`` (None, a structure or its JSON).
        Read if there: ``hypervisor_type``, ``hypervisor_version`` (base-1000 integer), ``cpu_info`` (JSON),
        ``disk_available_least`` (GB or None), ``stats``, ``supported_instances`` ([[architecture, hypervisor, mode]]).
        """
        raise NotImplementedError

    def spawn(self, context: RequestContext, instance: Instance, image_meta: Image) -> None:
        """Leave the guest running on ``instance.node``, or raise and leave nothing.

        Must remember ``instance.attempt`` for ``get_per_instance_usage``.
        """
        raise NotImplementedError

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        """End the guest and free what it has. A guest that does not exist is a success, with a warning."""
        raise NotImplementedError

    # Moves (docs/move-instances.md). A driver that leaves these out runs guests that cannot be resized; an evacuated
    # guest is spawned anew.

    def migrate_disk_and_power_off(
        self, context: RequestContext, instance: Instance, dest: str, flavor: Flavor
    ) -> None:
        """Switch the guest off, keep all that is needed to start it again, and have its disk where ``dest`` finds it.

        A guest that is off already is a success. ``dest`` may be this host. An exception leaves the move undone.
        :raises errors.NotFound: there is no such guest
        """
        raise errors.NotSupported(what="A resize", driver=type(self).__name__)

    def finish_migration(self, context: RequestContext, instance: Instance, image_meta: Image) -> None:
        """Leave the guest running with ``instance``'s flavor on ``instance.node``; or raise, and leave it as it was:
        not there, or off where it has come from this host. May be repeated: a guest that runs is a success."""
        raise errors.NotSupported(what="A resize", driver=type(self).__name__)

    def confirm_migration(self, context: RequestContext, instance_uuid: str) -> None:
        """The guest runs on another host, for good: forget what was kept. May be repeated."""
        self.destroy(context, instance_uuid)

    def finish_revert_migration(self, context: RequestContext, instance: Instance) -> None:
        """Start again, with ``instance``'s flavor, what was switched off; a guest that runs is a success.

        Without it: nothing was switched off, so that nothing is to be done.
        """

    def power_on(self, context: RequestContext, instance: Instance) -> None:
        """Start a guest that is there and does not run; one that runs is a success. For ``lost_guest_action = restart``.

        :raises errors.NotFound: there is no such guest: nothing of it is left to be started
        """
        raise errors.NotSupported(what="Starting a guest again", driver=type(self).__name__)

    def list_instance_uuids(self) -> list[str]:
        """All guests on all nodes, running or not."""
        return list(self.get_per_instance_usage())

    def get_info(self, instance_uuid: str) -> GuestInfo:
        """The guest as it is at this moment, not as it was ordered: each audit compares its state with the ledger's.

        :raises errors.NotFound: there is no such guest
        """
        raise NotImplementedError

    def estimate_instance_overhead(self, flavor: Flavor) -> dict[str, int]:
        """What the hypervisor itself needs besides the flavor: ``memory_mb``."""
        return {"memory_mb": 0}

    def get_per_instance_usage(self) -> dict[str, dict[str, Any]]:
        """For each guest's uuid: ``uuid``, ``memory_mb``, ``node``; ``attempt`` if this driver spawned it; and
        ``switched_off`` if it was, for a move.

        A guest without ``attempt`` is somebody else's: it is counted and reported, never destroyed.
        """
        return {}
