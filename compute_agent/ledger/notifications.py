# SPDX-License-Identifier: Apache-2.0
"""Sends notifications ``compute.instance.*`` of builds and moves, and ``compute.metrics.update``, with nova's payload.

The work of the agent calls it where a step begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oslo_log import log as logging

from fleet import errors, move_states, states
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Flavor, HostReport, Instance, Migration
from fleet.rpc.notifier import Notifier

LOG = logging.getLogger(__name__)

MESSAGE_LENGTH = 255

START, END, ERROR = "start", "end", "error"


def _all_of(event: str) -> dict[str, str]:
    return {suffix: f"{event}.{suffix}" for suffix in (START, END, ERROR)}


#: Event names of a host's part of a move. A revert begins on one host and ends on the other.
_STEPS: Mapping[tuple[str, str], Mapping[str, str]] = {
    (move_states.RESIZE, move_states.PREPARING): {**_all_of("resize.prep"), ERROR: "resize.error"},
    (move_states.RESIZE, move_states.PRE_MIGRATING): _all_of("resize"),
    (move_states.RESIZE, move_states.POST_MIGRATING): _all_of("finish_resize"),
    (move_states.RESIZE, move_states.CONFIRMING): _all_of("resize.confirm"),
    (move_states.RESIZE, move_states.REVERTING): {START: "resize.revert.start", ERROR: "resize.revert.error"},
    (move_states.RESIZE, move_states.RESUMING): {END: "resize.revert.end", ERROR: "resize.revert.error"},
    (move_states.EVACUATION, move_states.PRE_MIGRATING): _all_of("rebuild"),
    (move_states.LIVE_MIGRATION, move_states.PRE_MIGRATING): _all_of("live_migration.pre"),
    (move_states.LIVE_MIGRATION, move_states.RUNNING): _all_of("live_migration"),
    (move_states.LIVE_MIGRATION, move_states.POST_MIGRATING): _all_of("live_migration.post.dest"),
    (move_states.LIVE_MIGRATION, move_states.CONFIRMING): _all_of("live_migration.post"),
    (move_states.LIVE_MIGRATION, move_states.REVERTING): _all_of("live_migration.rollback.dest"),
}


#: Event names of power tasks.
_POWER: Mapping[str, Mapping[str, str]] = {
    states.POWERING_OFF: _all_of("power_off"),
    states.POWERING_ON: _all_of("power_on"),
    states.REBOOTING: _all_of("reboot"),
    states.REBOOTING_HARD: _all_of("reboot"),
    states.SUSPENDING: _all_of("suspend"),
    states.RESUMING: _all_of("resume"),
    states.REBUILD_DISK: _all_of("rebuild"),
    states.SHELVING: _all_of("shelve"),
    states.UNSHELVING: _all_of("unshelve"),
    states.SHELVING_OFFLOADING: _all_of("shelve_offload"),
}


class Notifications:
    """Sends for all hosts of the process. No build fails because a notification could not be sent."""

    def __init__(self, notifier: Notifier | None = None) -> None:
        self._notifier = notifier

    def create(
        self, context: RequestContext, suffix: str, host: str, instance: Instance, fault: Exception | None = None
    ) -> None:
        """``compute.instance.create.<suffix>``; level ERROR for the suffix ``error``, else INFO."""
        image = {"image_name": instance.image.name} if suffix == START else {}
        self._emit(
            context, host, f"compute.instance.create.{suffix}", lambda: {**payload(instance, host, fault), **image}
        )

    def of_attempt(self, context: RequestContext, host: str) -> AttemptEvents:
        """Return the events of one attempt to build an instance."""
        return AttemptEvents(self, context, host)

    def move(
        self,
        context: RequestContext,
        suffix: str,
        host: str,
        migration: Migration,
        instance: Instance,
        fault: Exception | None = None,
    ) -> None:
        """Tell that ``host`` begins, has finished or cannot do its part of a migration. Some parts have no notification.

        :param instance: as it is now
        """
        event = _STEPS.get((migration.migration_type, migration.status), {}).get(suffix)
        if event is not None:
            new = migration.new.flavor
            size = {"new_instance_type": new.name, "new_instance_type_id": new.id}
            what = f"compute.instance.{event}"
            self._emit(context, host, what, lambda: {**payload(instance, host, fault), **size})

    def power(
        self, context: RequestContext, suffix: str, host: str, instance: Instance, fault: Exception | None = None
    ) -> None:
        """``host`` begins, has done or cannot do the power task of ``instance``."""
        event = f"compute.instance.{_POWER[instance.task_state or ''][suffix]}"
        self._emit(context, host, event, lambda: payload(instance, host, fault))

    def power_state(self, context: RequestContext, host: str, instance: Instance, found: int) -> None:
        """``compute.instance.update``: the guest's power state differs from the row. ``power_state`` and
        ``old_power_state`` are names.
        """
        names = {"power_state": states.POWER_NAMES[found], "old_power_state": states.POWER_NAMES[instance.power_state]}
        what = {"old_state": instance.vm_state, "old_task_state": instance.task_state, **names}
        self._emit(context, host, "compute.instance.update", lambda: {**payload(instance, host), **what})

    def metrics(self, context: RequestContext, report: HostReport) -> None:
        """``compute.metrics.update``, if there are metrics."""
        if report.metrics:
            what = {"metrics": report.metrics, "host": report.host, "nodename": report.node, "host_ip": report.host_ip}
            self._emit(context, report.host, "compute.metrics.update", lambda: what)

    def _emit(self, context: RequestContext, host: str, event: str, said: Callable[[], JSONObject]) -> None:
        if self._notifier is None:
            return
        notifier = self._notifier.prepare(publisher_id=f"compute.{host}")
        emit = notifier.error if event.endswith("error") else notifier.info
        try:
            emit(context, event, said())
        except Exception:
            LOG.warning("Notification %s was not sent", event, exc_info=True)


class AttemptEvents:
    """``compute.instance.create.*`` of one attempt: a start, then one end or one error. None is repeated."""

    def __init__(self, notifications: Notifications, context: RequestContext, host: str) -> None:
        self._notifications = notifications
        self._context = context
        self._host = host
        self._started = False

    def start(self, instance: Instance) -> None:
        if not self._started:
            self._started = True
            self._notifications.create(self._context, START, self._host, instance)

    def end(self, instance: Instance, fault: Exception | None = None) -> None:
        self.start(instance)
        self._notifications.create(self._context, END, self._host, instance, fault)

    def error(self, instance: Instance, fault: Exception) -> None:
        self.start(instance)
        self._notifications.create(self._context, ERROR, self._host, instance, fault)


def payload(instance: Instance, host: str, fault: Exception | None = None) -> dict[str, object]:
    """Return the payload with the keys of nova 12.0.0. A value that fleet does not have is None or empty."""
    return {**_about(instance, host), **_size(instance.flavor), **_verdict(instance, fault)}


def _about(instance: Instance, host: str) -> dict[str, object]:
    image = instance.image.properties
    return {
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "instance_id": instance.uuid,
        "display_name": instance.name,
        "reservation_id": instance.reservation_id,
        "hostname": instance.name,
        "host": host,
        "node": instance.node,
        "availability_zone": instance.availability_zone,
        "cell_name": "",
        "created_at": instance.created_at,
        "launched_at": instance.launched_at or "",
        "terminated_at": "",
        "deleted_at": "",
        "image_ref_url": instance.image.id,
        "architecture": image.get("architecture") or image.get("hw_architecture"),
        "os_type": image.get("os_type"),
        "kernel_id": image.get("kernel_id") or "",
        "ramdisk_id": image.get("ramdisk_id") or "",
        "state": instance.vm_state,
        "state_description": instance.task_state or "",
        "progress": "",
        "access_ip_v4": None,
        "access_ip_v6": None,
        "image_meta": dict(image),
        "metadata": dict(instance.metadata),
    }


def _size(flavor: Flavor) -> dict[str, object]:
    return {
        "instance_type": flavor.name,
        "instance_type_id": flavor.id,
        "instance_flavor_id": flavor.flavorid,
        "memory_mb": flavor.memory_mb,
        "disk_gb": flavor.claimed_disk_gb,
        "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
    }


def _verdict(instance: Instance, fault: Exception | None) -> JSONObject:
    if fault is None:
        return {"message": "Success"} if instance.vm_state == states.ACTIVE else {}
    message = fault.message if isinstance(fault, errors.FleetError) else str(fault) or type(fault).__name__
    code = getattr(fault, "code", errors.FleetError.code)
    # The class of a remote error has a suffix in its name.
    name = type(fault).__name__.removesuffix("_Remote")
    return {"exception": name, "message": message[:MESSAGE_LENGTH], "code": code}
