# SPDX-License-Identifier: Apache-2.0
"""This machine as a host of virtual machines: one libvirt domain, and one directory, for each instance.

libvirt has the state of a domain, and the directory the record of the guest: an agent that starts again finds both. A domain
without a directory and without our mark belongs to something else: it is reported, and never touched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import units

from compute_agent.drivers import guest_record, time_limit
from compute_agent.drivers.base import ComputeDriver, FindBootData, FindImage, GuestInfo, SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt import domain_xml, extra, interfaces, live, pci_devices, peer, power, volumes
from compute_agent.drivers.libvirt.capabilities import Capabilities
from compute_agent.drivers.libvirt.connection import Connection, Unreachable, library
from compute_agent.drivers.libvirt.domain_xml import Machine
from compute_agent.drivers.libvirt.guest_disks import CONSOLE, GuestDisks
from compute_agent.drivers.libvirt.image_cache import ImageCache
from fleet import errors, failpoints, states
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, BootData, Flavor, Image, ImageRecord, Instance, host_report

LOG = logging.getLogger(__name__)

DEFAULT_URI = "qemu:///system"
KVM = "kvm"
_KIB = 1024
#: Directories: guests of a host; hosts that share storage.
_GUESTS, _HOSTS = "guests", "hosts"
#: Part of ``driver_timeout`` that saving the memory of a guest may take.
_SAVE_SHARE = 0.8


class LibvirtDriver(ComputeDriver):
    """Stores nothing of a guest in memory, but the last list of domains that are not ours."""

    one_host_only = True
    takes_volumes = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._options = conf.libvirt
        self._host = ""
        self._connection = Connection(self._options.connection_uri or DEFAULT_URI)
        self._set_root(pathlib.Path(conf.instances_path) / "libvirt")
        self._find_image: FindImage | None = None
        self._find_boot_data: FindBootData | None = None
        self._foreign: dict[str, JSONObject] = {}
        #: Type of the domains; a test has another.
        self.kind: str = self._options.virt_type

    def _set_root(self, root: pathlib.Path) -> None:
        self._root = root
        self._cache = ImageCache(root / "bases")
        self._disks = GuestDisks(root / _GUESTS, self._cache)

    def init_host(self, host: str) -> None:
        self._host = host
        extra.require()
        if self._options.shared_storage:
            self._use_shared_storage()
        pci_devices.require_valid(self._options.pci_devices)
        if shutil.which("qemu-img") is None:
            raise errors.ConfigError(option="compute_driver", reason="is libvirt, and qemu-img is not installed")
        try:
            self._cache.start()
            self._disks.start()
        except OSError as denied:
            raise errors.ConfigError(option="instances_path", reason=f"cannot be written: {denied}") from None
        try:
            capabilities = self._capabilities()
        except Unreachable as away:
            raise errors.ConfigError(option="[libvirt] connection_uri", reason=f"leads nowhere: {away}") from None
        if not capabilities.can_run(self.kind):
            kinds = ", ".join(sorted({kind for _architecture, kind in capabilities.guests})) or "no guests"
            reason = f"is {self.kind}, and this machine runs {kinds}"
            raise errors.ConfigError(option="[libvirt] virt_type", reason=reason)

    def _use_shared_storage(self) -> None:
        """Hosts that share a directory have directories of their own in it.

        :raises errors.ConfigError: there are guests that would be lost
        """
        if self._disks.directory.exists() and self._disks.records():
            reason = (
                f"is set, and {self._disks.directory} has guests: move {_GUESTS} and bases to {_HOSTS}/{self._host}"
            )
            raise errors.ConfigError(option="[libvirt] shared_storage", reason=reason)
        self._set_root(self._root / _HOSTS / self._host)

    def cleanup_host(self, host: str) -> None:
        self._connection.close()

    def use_images(self, find: FindImage) -> None:
        self._find_image = find

    def use_boot_data(self, find: FindBootData) -> None:
        self._find_boot_data = find

    def register_event_listener(self, changed: Callable[[str], object]) -> None:
        self._connection.listen(changed)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        return [self._host]

    def get_available_resource(self, node: str) -> JSONObject | None:
        try:
            resources = self._connection.call(self._read_resources)
            capabilities = self._capabilities()
            devices = self._connection.call(self._read_devices) if self._options.pci_devices else []
        except Unreachable as away:
            reason = f"cannot be read: {away}"
            raise errors.ReportRefused(host=self._host, node=node, field="it", reason=reason) from None
        self._cache.clean(self._options.remove_unused_original_minimum_age_seconds)
        disk = shutil.disk_usage(self._disks.directory)
        promised_gb = sum(record.disk_gb for record in self._disks.records().values())
        return {
            **resources,
            "local_gb": disk.total // units.Gi,
            "disk_available_least": disk.free // units.Gi - promised_gb,
            "hypervisor_hostname": node,
            "pci_passthrough_devices": devices,
            "cpu_info": json.dumps(capabilities.cpu_info),
            "numa_topology": {"cells": list(capabilities.cells)} if capabilities.cells else None,
            "supported_instances": capabilities.supported_instances,
            "stats": {
                host_report.SHARED: self._options.shared_storage,
                host_report.DISKS: "libvirt" if self._options.migration_uri else "",
                host_report.LIVE: f"libvirt-{self.kind}" if self._options.migration_uri else "",
                host_report.BRIDGES: ",".join(interfaces.bridges(self._options.bridges)),
            },
        }

    @staticmethod
    def _read_resources(connection: Any) -> JSONObject:
        _model, memory_mb, cpus, *_shape = connection.getInfo()
        return {
            "vcpus": cpus,
            "memory_mb": memory_mb,
            "hypervisor_type": connection.getType(),
            "hypervisor_version": connection.getVersion(),
        }

    def _read_devices(self, connection: Any) -> list[JSONObject]:
        devices = connection.listAllDevices(library().VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV)
        return pci_devices.inventory((each.XMLDesc() for each in devices), self._options.pci_devices)

    def estimate_instance_overhead(self, flavor: Flavor) -> dict[str, int]:
        return {"memory_mb": self._options.memory_overhead_mb}

    def _capabilities(self) -> Capabilities:
        return Capabilities.parse(self._connection.call(lambda connection: connection.getCapabilities()))

    def spawn(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        _require_openable(volumes)
        image = self._image_of(context, instance, image_meta)
        data = self._find_boot_data(context, instance.uuid) if self._find_boot_data else BootData()
        self._disks.begin(GuestRecord.of(instance, volumes))
        try:
            with _explained("The guest cannot be made"):
                self._disks.fill(instance, image, data)
                self._start(instance)
        except BaseException:
            self._undo(context, instance)
            raise

    def _undo(self, context: RequestContext, instance: Instance) -> None:
        """A spawn that took too long was given up meanwhile: the guest may be that of a later attempt."""
        record = self._disks.record(instance.uuid)
        if record is None or record.attempt == instance.attempt:
            self.destroy(context, instance.uuid)

    def _image_of(self, context: RequestContext, instance: Instance, image: Image) -> ImageRecord:
        """:raises errors.BuildAbort: no host could find the bytes"""
        if not image.id or self._find_image is None:
            reason = "a virtual machine boots from an image: name one that 'fleet image list' shows"
            raise errors.BuildAbort(instance_uuid=instance.uuid, reason=reason)
        try:
            return self._find_image(context, image.id)
        except errors.NotFound as unknown:
            raise errors.BuildAbort(instance_uuid=instance.uuid, reason=unknown.message) from None

    def _start(self, instance: Instance) -> None:
        capabilities = self._capabilities()
        cell_cpus = {cell["id"]: cell["cpuset"] for cell in capabilities.cells}
        machine = Machine(self.kind, self._options.cpu_mode, cell_cpus)
        console = self._disks.of(instance.uuid) / CONSOLE
        attached = [volumes.disk_of(each) for each in self._record(instance.uuid).attachments()]
        disks = [*self._disks.disks(instance), *attached]
        text = domain_xml.build(machine, instance, self._host, disks, console)
        time_limit.require_wanted()
        domain = self._connection.call(lambda connection: connection.defineXML(text))
        # It would bring back the definition that it was saved with.
        self._connection.call(lambda _connection: power.forget_memory(domain))
        failpoints.hit("libvirt.define.after")
        time_limit.require_wanted()
        self._connection.call(lambda _connection: domain.create())
        failpoints.hit("libvirt.start.after")

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        """First the domain, then the files: what is left of a destroy that was interrupted is found by the files."""
        is_known = self._disks.record(instance_uuid) is not None
        domain = self._find(instance_uuid)
        if domain is not None and (is_known or self._mark(domain) is not None):
            self._connection.call(lambda _connection: power.remove(domain))
        if is_known:
            self._close_directory(instance_uuid)
        if not self._disks.remove(instance_uuid) and domain is None:
            LOG.warning("Nothing to destroy: instance %s is not on this machine", instance_uuid)

    def take_over(
        self, context: RequestContext, instance: Instance, source: str, volumes: Sequence[Attachment] = ()
    ) -> bool:
        """QEMU locks the images that it has open: where the guest still runs on its old host, it does not start here."""
        if not self._options.shared_storage:
            return False
        there = self._root.parent / pathlib.Path(source).name
        if not there.is_dir():
            return False
        _require_openable(volumes)
        self._disks.begin(GuestRecord.of(instance, volumes))
        try:
            with _explained(f"The guest cannot be started from its disks of {source}"):
                self._disks.adopt(instance, there / _GUESTS)
                self._start(instance)
        except BaseException:
            self._undo(context, instance)
            raise
        return True

    def migrate_disk_and_power_off(
        self, context: RequestContext, instance: Instance, dest: str, flavor: Flavor
    ) -> None:
        record = self._record(instance.uuid)
        if dest != self._host and not self._options.migration_uri:
            raise errors.NotSupported(
                what=f"A move from {self._host} to another host, {dest}, without [libvirt] migration_uri",
                driver="the driver libvirt",
            )
        self._disks.require_no_smaller(instance.uuid, flavor)
        self._disks.keep(dataclasses.replace(record, power_state=states.SHUTDOWN))
        self.power_off(context, instance)
        if dest != self._host:
            directory = self._disks.of(instance.uuid)
            self._connection.call(lambda connection: peer.open_directory(connection, instance.uuid, directory))

    def fetch_disks(
        self, context: RequestContext, instance: Instance, source: str, move: str, progress: Callable[[int], object]
    ) -> None:
        record, arrived = self._disks.record(instance.uuid), dataclasses.replace(GuestRecord.of(instance), move=move)
        if record is not None and dataclasses.replace(record, volumes={}) == arrived:
            return
        if record is not None:
            LOG.info("Removing what an earlier copy of instance %s has left", instance.uuid)
            self.destroy(context, instance.uuid)
        self._disks.begin(dataclasses.replace(arrived, power_state=states.SHUTDOWN))
        try:
            with _explained(f"The disks cannot be copied from {source}"):
                with peer.reach(self._connection.open_other, self._uri_of(source), instance.uuid) as files:
                    self._disks.receive(instance, self._known_image(context, instance), files, progress)
                self._disks.keep(arrived)
        except BaseException:
            now = self._disks.record(instance.uuid)
            if now is not None and now.move == move:
                self._disks.remove(instance.uuid)
            raise

    def _uri_of(self, host: str) -> str:
        """:raises SpawnFailed: this host has no way to read disks of others"""
        if not self._options.migration_uri:
            raise SpawnFailed(f"The disks cannot be copied to {self._host}: it has no [libvirt] migration_uri")
        return str(self._options.migration_uri).replace("%s", host)

    def _known_image(self, context: RequestContext, instance: Instance) -> ImageRecord | None:
        try:
            return self._find_image(context, instance.image.id) if self._find_image and instance.image.id else None
        except errors.NotFound:
            return None

    def pre_live_migration(self, context: RequestContext, instance: Instance, source: str) -> None:
        """Also what an earlier try has left is removed: the guest does not come before this has ended."""
        if self._disks.record(instance.uuid) is not None:
            self.destroy(context, instance.uuid)
        self._disks.begin(dataclasses.replace(GuestRecord.of(instance), arriving=True))
        try:
            with (
                _explained(f"The guest cannot be received from {source}"),
                peer.connected(self._connection.open_other, self._uri_of(source)) as there,
            ):
                layout = live.Layout.of(there.lookupByUUIDString(instance.uuid))
                peer.open_directory(there, instance.uuid, layout.directory)
                try:
                    files = peer.files_in(there, instance.uuid)
                    image = self._known_image(context, instance)
                    self._disks.prepare(instance, image, files, layout.sizes, layout.base_format)
                finally:
                    peer.close_directory(there, instance.uuid)
                here = self._disks.of(instance.uuid)
                self._connection.call(lambda connection: peer.open_directory(connection, instance.uuid, here))
        except BaseException:
            self.destroy(context, instance.uuid)
            raise

    def live_migration(
        self,
        context: RequestContext,
        instance: Instance,
        dest: str,
        progress: Callable[[int], object],
        begin: bool = True,
    ) -> None:
        self._record(instance.uuid)
        why, domain = "no migration of it is under way", self._find(instance.uuid)
        if domain is not None:
            followed = self._connection.call(lambda _connection: live.follow(domain, progress))
            if followed:
                why = "its migration has ended"
            elif begin:
                runs = self._state(domain) == states.RUNNING
                why = self._migrate(domain, instance.uuid, dest, progress) if runs else "it does not run"
        left = self._find(instance.uuid)
        self._connection.call(lambda _connection: live.has_left(left, why))

    def _migrate(self, domain: object, uuid: str, dest: str, progress: Callable[[int], object]) -> str:
        """Return why the guest has not left, if it has not. :raises Unreachable: it is unknown"""
        here, options = self._disks.of(uuid), self._options
        try:
            data_uri = options.migration_data_uri.replace("%s", dest)
            way = live.Way(dest, self._uri_of(dest), data_uri, options.live_migration_with_native_tls)
            with peer.connected(self._connection.open_other, way.uri) as other:
                there = peer.opened_directory(other, uuid)
        except (SpawnFailed, library().libvirtError) as failure:
            return str(failure)
        failpoints.hit("libvirt.migrate.before")
        try:
            with live.watched(domain, progress):
                self._connection.call(lambda _connection: live.migrate(domain, way, here, there))
        except library().libvirtError as failure:
            return str(failure)
        failpoints.hit("libvirt.migrate.after")
        return ""

    def live_migration_abort(self, context: RequestContext, instance_uuid: str) -> None:
        domain = self._find(instance_uuid)
        if domain is not None:
            self._connection.call(lambda _connection: live.abort(domain))

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance) -> None:
        self._close_directory(instance.uuid)
        record = self._record(instance.uuid)
        if record.arriving:
            self._disks.keep(dataclasses.replace(record, arriving=False))

    def finish_migration(
        self,
        context: RequestContext,
        instance: Instance,
        image_meta: Image,
        volumes: Sequence[Attachment] | None = None,
    ) -> None:
        record = self._record(instance.uuid)
        had = record.attachments() if volumes is None else volumes
        _require_openable(had)
        now = dataclasses.replace(GuestRecord.of(instance, had), move=record.move)
        domain = self._find(instance.uuid)
        if record == now and domain is not None and self._state(domain) in power.WITH_A_PROCESS:
            return
        try:
            with _explained("The guest cannot be resized"):
                if record != now:
                    self._disks.grow(instance)
                    self._disks.keep(now)
                self._start(instance)
        except BaseException:
            self._disks.keep(dataclasses.replace(record, power_state=states.SHUTDOWN))
            self._undo_resize(instance.uuid)
            raise

    def forget_former_size(self, context: RequestContext, instance_uuid: str) -> None:
        self._disks.forget_former(instance_uuid)

    def finish_revert_migration(
        self, context: RequestContext, instance: Instance, volumes: Sequence[Attachment] | None = None
    ) -> None:
        record = self._record(instance.uuid)
        had = record.attachments() if volumes is None else volumes
        self._close_directory(instance.uuid)
        if self._disks.is_grown(instance.uuid):
            self._undo_resize(instance.uuid)
        self._disks.keep(GuestRecord.of(instance, had))
        self.power_on(context, instance)

    def _close_directory(self, uuid: str) -> None:
        if self._options.migration_uri:
            self._connection.call(lambda connection: peer.close_directory(connection, uuid))

    def _undo_resize(self, uuid: str) -> None:
        """The domain goes, too: its definition is that of the new flavor."""
        domain = self._find(uuid)
        if domain is not None:
            self._connection.call(lambda _connection: power.remove(domain))
        self._disks.shrink(uuid)

    def _find(self, uuid: str) -> Any | None:
        """:raises Unreachable:"""
        module = library()
        try:
            return self._connection.call(lambda connection: connection.lookupByUUIDString(uuid))
        except module.libvirtError as failure:
            if failure.get_error_code() == module.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def _mark(self, domain: Any) -> Any | None:
        return domain_xml.mark_of(self._connection.call(lambda _connection: domain.XMLDesc()))

    def power_on(self, context: RequestContext, instance: Instance) -> None:
        """Without saved memory the domain is defined anew: its definition may be lost, or that of an earlier claim."""
        domain = self._require(instance.uuid)
        if domain is not None and self._state(domain) in power.WITH_A_PROCESS:
            return
        if domain is not None and self._has_memory(domain):
            self._connection.call(lambda _connection: domain.create())
        else:
            self._start(instance)

    def _has_memory(self, domain: Any) -> bool:
        return bool(self._connection.call(lambda _connection: domain.hasManagedSaveImage()))

    def suspend(self, context: RequestContext, instance: Instance) -> None:
        """libvirt saves the memory in a file of its own, and QEMU ends."""
        domain = self._require(instance.uuid)
        if domain is not None and self._state(domain) in power.WITH_A_PROCESS:
            # Before the agent gives up: a guest that is saved later would be off while its row is ACTIVE.
            limit_s = self.conf.driver_timeout * _SAVE_SHARE
            self._connection.call(lambda _connection: power.save(domain, limit_s))
        elif domain is None or not self._has_memory(domain):
            raise SpawnFailed("The guest does not run")

    def resume(self, context: RequestContext, instance: Instance) -> None:
        domain = self._require(instance.uuid)
        if domain is None or not (self._has_memory(domain) or self._state(domain) in power.WITH_A_PROCESS):
            LOG.warning("The memory of instance %s is lost: its guest boots", instance.uuid)
        self.power_on(context, instance)

    def power_off(self, context: RequestContext, instance: Instance) -> None:
        domain = self._require(instance.uuid)
        if domain is None:
            return
        if self._state(domain) in power.WITH_A_PROCESS:
            self._connection.call(lambda _connection: power.shut_down(domain, self._options.shutdown_timeout))
        if self._state(domain) == states.CRASHED:
            # Without a definition it is off.
            self._connection.call(lambda _connection: power.remove(domain))

    def reboot(self, context: RequestContext, instance: Instance, hard: bool = False) -> None:
        domain = self._require(instance.uuid)
        if hard and domain is not None:
            self._connection.call(lambda _connection: power.force_off(domain))
            self._connection.call(lambda _connection: power.forget_memory(domain))
        else:
            self.power_off(context, instance)
        self.power_on(context, instance)

    def attach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        """First the record, then the domain: a volume that may be attached is recorded."""
        _require_openable([attachment])
        domain = self._require(instance_uuid)
        if domain is not None:
            self._connection.call(lambda _connection: volumes.require_awake(domain))
        self._disks.keep(self._record(instance_uuid).with_volume(attachment))
        if domain is not None:
            self._connection.call(lambda _connection: volumes.attach(domain, attachment))

    def detach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        domain, limit_s = self._require(instance_uuid), self._options.device_detach_timeout
        if domain is not None:
            self._connection.call(lambda _connection: volumes.require_awake(domain))
            self._connection.call(lambda _connection: volumes.detach(domain, attachment, limit_s))
        self._disks.keep(self._record(instance_uuid).without_volume(attachment.volume_uuid))

    def attached_volumes(self) -> dict[str, list[str]]:
        return {uuid: sorted(record.volumes) for uuid, record in self._disks.records().items() if record.volumes}

    def _require(self, uuid: str) -> Any | None:
        """Return the domain of a guest, None if it is not defined. :raises errors.NotFound: there is no such guest"""
        self._record(uuid)
        return self._find(uuid)

    def _record(self, uuid: str) -> GuestRecord:
        """:raises errors.NotFound: there is no such guest"""
        record = self._disks.record(uuid)
        if record is None:
            raise errors.NotFound(kind="Guest", name=uuid)
        return record

    def _state(self, domain: object) -> int:
        state: int = self._connection.call(lambda _connection: power.state_of(domain))
        return state

    def get_info(self, instance_uuid: str) -> GuestInfo:
        domain = self._find(instance_uuid)
        record = self._disks.record(instance_uuid)
        if domain is None and record is None:
            raise errors.NotFound(kind="Guest", name=instance_uuid)
        if domain is None:
            return GuestInfo(state=states.SHUTDOWN)
        return self._connection.call(lambda _connection: _info(domain))

    def get_console_output(self, context: RequestContext, instance_uuid: str, most_bytes: int) -> bytes:
        return guest_record.log_end(instance_uuid, self._disks.of(instance_uuid) / CONSOLE, most_bytes)

    def get_per_instance_usage(self) -> dict[str, JSONObject]:
        """While libvirt is away, domains that are not ours are as they were last seen."""
        ours = {
            uuid: record.usage(resized=self._disks.is_grown(uuid)) for uuid, record in self._disks.records().items()
        }
        try:
            self._foreign = self._connection.call(lambda connection: self._others(connection, ours.keys()))
        except Unreachable as away:
            LOG.debug("The domains that are not ours cannot be listed: %s", away)
        return {**self._foreign, **ours}

    def _others(self, connection: Any, ours: Any) -> dict[str, JSONObject]:
        """Return the usage of domains without a directory. One that has our mark was made by an agent of this host."""
        found: dict[str, JSONObject] = {}
        for domain in connection.listAllDomains():
            uuid = domain.UUIDString()
            if uuid in ours:
                continue
            try:
                mark, memory_mb = domain_xml.mark_of(domain.XMLDesc()), domain.maxMemory() // _KIB
            except library().libvirtError:
                # It has ended meanwhile.
                continue
            usage = {"uuid": uuid, "memory_mb": memory_mb, "node": self._host}
            found[uuid] = {**usage, "attempt": int(mark["attempt"])} if mark else usage
        return found


def _require_openable(attachments: Iterable[Attachment]) -> None:
    """:raises errors.NotSupported: the data of a volume are nowhere"""
    for kind in (each.connection.kind for each in attachments):
        if kind not in ("file", "block"):
            raise errors.NotSupported(what=f"A volume of the kind {kind}", driver="the driver libvirt")


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """:raises SpawnFailed: with the reason, in the place of errors of files and of libvirt"""
    try:
        yield
    except (OSError, library().libvirtError) as failure:
        raise SpawnFailed(f"{what}: {failure}") from failure


def _info(domain: Any) -> GuestInfo:
    _state, max_kb, kb, cpus, cpu_time_ns = domain.info()
    return GuestInfo(state=power.state_of(domain), max_mem_kb=max_kb, mem_kb=kb, num_cpu=cpus, cpu_time_ns=cpu_time_ns)
