# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts: a configured inventory, guests that are records, and failures and delays on demand.

``compute_driver = fake`` names it. Trials and tests use it.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import pathlib
import random
import threading
import time
from collections.abc import Callable, Sequence

from oslo_config import cfg
from oslo_log import log as logging

from compute_agent.drivers import fake_console, fake_hardware, guest_record
from compute_agent.drivers.base import ComputeDriver, GuestInfo, LiveMigrationFailed, SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from fleet import errors, states
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, Flavor, Image, Instance, host_report

LOG = logging.getLogger(__name__)

#: Of the time that a live migration takes.
_PARTS = 10


class FakeDriver(ComputeDriver):
    """The lock guards the records. ``pause`` waits for that many seconds; tests pass their own."""

    simulated = True
    takes_volumes = True

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        pause: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(conf)
        self._clock, self._began = clock, clock()
        self._loads = fake_hardware.guest_loads(conf.fake.guest_loads)
        self._options = conf.fake
        self._pci_devices = fake_hardware.pci_devices(conf.fake.pci_devices)
        self._pause = pause or threading.Event().wait
        self._lock = threading.Lock()
        self._guests: dict[str, GuestRecord] = {}
        self._host = ""
        self._directory: pathlib.Path | None = None
        #: Guests whose live migration is to end.
        self._aborted: set[str] = set()

    def init_host(self, host: str) -> None:
        self._host = host
        if not self._options.persist:
            return
        self._directory = pathlib.Path(self.conf.instances_path) / "fake" / host
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as denied:
            raise errors.ConfigError(option="instances_path", reason=f"cannot be written: {denied}") from None
        records = [guest_record.read(path) for path in self._directory.glob("*.json")]
        self._guests = {record.uuid: record for record in records if record is not None}

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        if self._options.fake_nodes == 1:
            return [self._host]
        return [f"{self._host}-{number}" for number in range(1, self._options.fake_nodes + 1)]

    def get_available_resource(self, node: str) -> JSONObject | None:
        options = self._options
        with self._lock:
            here = [guest for guest in self._guests.values() if guest.node == node]
        return {
            "vcpus": options.vcpus,
            "memory_mb": options.memory_mb,
            "local_gb": options.local_gb,
            "vcpus_used": sum(guest.vcpus for guest in here),
            "memory_mb_used": sum(guest.memory_mb for guest in here),
            "local_gb_used": sum(guest.disk_gb for guest in here),
            "numa_topology": fake_hardware.numa_topology(options),
            "pci_passthrough_devices": self._pci_devices,
            "hypervisor_type": host_report.SIMULATED,
            "hypervisor_version": 1_000_000,
            "hypervisor_hostname": node,
            "cpu_info": json.dumps({"arch": options.architecture}),
            "disk_available_least": None,
            "supported_instances": [[options.architecture, "fake", "hvm"]],
            "stats": {
                host_report.LIVE: host_report.SIMULATED,
                host_report.LIVE_TAKES: f"{host_report.TAKES_CELLS},{host_report.TAKES_VOLUMES}",
                host_report.SHELF: host_report.SIMULATED,
                **({host_report.BRIDGES: ",".join(options.bridges)} if options.bridges else {}),
            },
        }

    def spawn(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        with self._lock:
            time_limit.require_wanted()
            if instance.uuid in self._guests:
                raise SpawnFailed(f"Instance {instance.uuid} exists on {self._host} already")
            self._keep(GuestRecord.of(instance, volumes))
        if self._options.spawn_delay:
            self._pause(self._options.spawn_delay)
        with self._lock:
            time_limit.require_wanted()
            record = self._guests.get(instance.uuid)
            if record is None or self._fails(instance):
                self._forget(instance.uuid)
                raise SpawnFailed(f"The fake hypervisor on {self._host} failed to spawn, as configured")
            self._keep(dataclasses.replace(record, power_state=states.RUNNING))

    def shelve(self, context: RequestContext, instance: Instance) -> None:
        """A record has no disk."""

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        with self._lock:
            if not self._forget(instance_uuid):
                LOG.warning("Nothing to destroy: instance %s is not on %s", instance_uuid, self._host)

    def migrate_disk_and_power_off(
        self, context: RequestContext, instance: Instance, dest: str, flavor: Flavor
    ) -> None:
        self._switch_off(instance, stopped=False)

    def power_off(self, context: RequestContext, instance: Instance) -> None:
        self._switch_off(instance, stopped=True)

    def suspend(self, context: RequestContext, instance: Instance) -> None:
        self._switch_off(instance, stopped=False, power_state=states.SUSPENDED)

    def _switch_off(self, instance: Instance, stopped: bool, power_state: int = states.SHUTDOWN) -> None:
        with self._lock:
            record = self._known(instance.uuid)
            self._keep(dataclasses.replace(record, power_state=power_state, stopped=stopped))

    def finish_migration(
        self,
        context: RequestContext,
        instance: Instance,
        image_meta: Image,
        volumes: Sequence[Attachment] | None = None,
    ) -> None:
        if self._options.spawn_delay:
            self._pause(self._options.spawn_delay)
        if self._fails(instance):
            raise SpawnFailed(f"The fake hypervisor on {self._host} failed to start a guest, as configured")
        self._run(instance, volumes)

    def finish_revert_migration(
        self, context: RequestContext, instance: Instance, volumes: Sequence[Attachment] | None = None
    ) -> None:
        if instance.uuid not in self.list_instance_uuids():
            raise errors.NotFound(kind="Guest", name=instance.uuid)
        self._run(instance, volumes)

    def pre_live_migration(
        self, context: RequestContext, instance: Instance, source: str, volumes: Sequence[Attachment] = ()
    ) -> None:
        if self._fails(instance):
            raise SpawnFailed(f"The fake hypervisor on {self._host} refused a running guest, as configured")
        with self._lock:
            self._keep(dataclasses.replace(GuestRecord.of(instance, volumes), arriving=True))

    def live_migration(
        self,
        context: RequestContext,
        instance: Instance,
        dest: str,
        progress: Callable[[int], object],
        begin: bool = True,
        cells: JSONObject | None = None,
    ) -> None:
        if instance.uuid not in self.list_instance_uuids():
            return
        if not begin:
            raise LiveMigrationFailed("No live migration is under way")
        self._aborted.discard(instance.uuid)
        for percent in range(0, 100, 100 // _PARTS):
            progress(percent)
            if self._options.live_migration_delay:
                self._pause(self._options.live_migration_delay / _PARTS)
            if instance.uuid in self._aborted:
                raise LiveMigrationFailed("The live migration was aborted")
        with self._lock:
            self._forget(instance.uuid)

    def live_migration_abort(self, context: RequestContext, instance_uuid: str) -> None:
        self._aborted.add(instance_uuid)

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance) -> None:
        self._run(instance)

    def power_on(self, context: RequestContext, instance: Instance) -> None:
        self.finish_revert_migration(context, instance)

    def _run(self, instance: Instance, volumes: Sequence[Attachment] | None = None) -> None:
        """:param volumes: that the guest has now; None: those that it had"""
        with self._lock:
            known = self._guests.get(instance.uuid)
            kept = known.attachments() if known and volumes is None else volumes or ()
            self._keep(dataclasses.replace(GuestRecord.of(instance, kept), power_state=states.RUNNING))

    def attach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        with self._lock:
            self._keep(self._known(instance_uuid).with_volume(attachment))

    def detach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        with self._lock:
            self._keep(self._known(instance_uuid).without_volume(attachment.volume_uuid))

    def attached_volumes(self) -> dict[str, list[str]]:
        with self._lock:
            return {uuid: sorted(record.volumes) for uuid, record in self._guests.items() if record.volumes}

    def _known(self, instance_uuid: str) -> GuestRecord:
        """:raises errors.NotFound: there is no such guest"""
        self._look(instance_uuid)
        record = self._guests.get(instance_uuid)
        if record is None:
            raise errors.NotFound(kind="Guest", name=instance_uuid)
        return record

    def get_info(self, instance_uuid: str) -> GuestInfo:
        with self._lock:
            record = self._known(instance_uuid)
        memory_kb = record.memory_mb * 1024
        sizes = {"max_mem_kb": memory_kb, "mem_kb": memory_kb, "num_cpu": record.vcpus}
        return GuestInfo(state=record.power_state, cpu_time_ns=self._used_ns(record), **sizes)

    def _used_ns(self, record: GuestRecord) -> int:
        """Return the processor time of a guest that has had its configured load since the driver began."""
        found = (share for pattern, share in self._loads if fnmatch.fnmatchcase(record.name, pattern))
        return int(next(found, 0.0) * record.vcpus * (self._clock() - self._began) * 1e9)

    def get_console_output(self, context: RequestContext, instance_uuid: str, most_bytes: int) -> bytes:
        """Return lines like those that a guest of these sizes prints. Projects read it, so it does not name the host."""
        with self._lock:
            record = self._known(instance_uuid)
        return fake_console.text(record).encode()[-most_bytes:]

    def get_per_instance_usage(self) -> dict[str, JSONObject]:
        with self._lock:
            for uuid in list(self._guests):
                self._look(uuid)
            return {uuid: record.usage() for uuid, record in self._guests.items()}

    def _look(self, instance_uuid: str) -> None:
        """Read the record again if it is kept in a file: a test that removes or changes the file has changed the guest."""
        if self._directory is None or instance_uuid not in self._guests:
            return
        found = guest_record.read(self._directory / f"{instance_uuid}.json")
        if found is None:
            del self._guests[instance_uuid]
        else:
            self._guests[instance_uuid] = found

    def _fails(self, instance: Instance) -> bool:
        """Return a random result that does not depend on order: equal for equal seed, host, instance and attempt in any
        thread.
        """
        if any(fnmatch.fnmatchcase(self._host, pattern) for pattern in self._options.failing_hosts):
            return True
        dice = random.Random(f"{self._options.seed}/{self._host}/{instance.uuid}/{instance.attempt}")
        return dice.random() < self._options.spawn_failure_rate

    def _keep(self, record: GuestRecord) -> None:
        if self._directory is not None:
            guest_record.write(self._directory / f"{record.uuid}.json", record)
        self._guests[record.uuid] = record

    def _forget(self, instance_uuid: str) -> bool:
        if self._directory is not None:
            (self._directory / f"{instance_uuid}.json").unlink(missing_ok=True)
        return self._guests.pop(instance_uuid, None) is not None
