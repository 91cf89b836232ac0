# SPDX-License-Identifier: Apache-2.0
"""The part of the driver that reads the machine: its resources, devices and capabilities, and domains that are not ours.

Called by :mod:`compute_agent.drivers.libvirt.driver`.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import units

from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.access import GUESTS, GuestAccess
from compute_agent.drivers.libvirt.domains import domain_xml, extra, interfaces, pci_devices, peer
from compute_agent.drivers.libvirt.domains.connection import Unreachable, library
from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import Flavor, host_report

if TYPE_CHECKING:
    import libvirt

LOG = logging.getLogger(__name__)

_KIB = 1024
#: Directory of hosts that share storage.
_HOSTS = "hosts"
#: Former names of a host in one message.
_NAMED = 5


class Inventory(GuestAccess):
    one_host_only = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        #: Domains that are not ours, as they were last seen
        self._foreign: dict[str, JSONObject] = {}

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
        self._require_own_guests()
        try:
            capabilities = self._capabilities()
        except Unreachable as away:
            raise errors.ConfigError(option="[libvirt] connection_uri", reason=f"leads nowhere: {away}") from None
        if not capabilities.can_run(self.kind):
            kinds = ", ".join(sorted({kind for _architecture, kind in capabilities.guests})) or "no guests"
            reason = f"is {self.kind}, and this machine runs {kinds}"
            raise errors.ConfigError(option="[libvirt] virt_type", reason=reason)
        if self._options.migration_uri:
            self._open_less()

    def _open_less(self) -> None:
        """An earlier release has opened whole directories, with what guests print."""
        try:
            found = self._connection.call(peer.opened_directories)
            for uuid, record in self._disks.records().items():
                if self._disks.of(uuid) not in found:
                    continue
                if not record.arriving:
                    self._disks.show(uuid)
                self._open_directory(uuid)
        except (OSError, library().libvirtError) as failure:
            LOG.warning("The storage pools of guests that move cannot be made anew: %s", failure)

    def _use_shared_storage(self) -> None:
        """Hosts that share a directory have directories of their own in it.

        The operator makes that directory, once: one that an agent made could lie below the place where the storage is
        mounted later.

        :raises errors.ConfigError: there are guests that would be lost, or the storage is not mounted
        """
        if self._disks.directory.exists() and self._disks.records():
            reason = f"is set, and {self._disks.directory} has guests: move {GUESTS} and bases to {_HOSTS}/{self._host}"
            raise errors.ConfigError(option="[libvirt] shared_storage", reason=reason)
        shared = self._root / _HOSTS
        if not shared.is_dir():
            reason = (
                f"is set, and {shared} does not exist: mount the storage, or make this directory on it if it is new"
            )
            raise errors.ConfigError(option="[libvirt] shared_storage", reason=reason)
        self._set_root(shared / self._host)

    def _require_own_guests(self) -> None:
        """Refuse to serve a host under a new name: its ledger has none of the guests, so each of them would be destroyed.

        :raises errors.ConfigError: there are guests of another host
        """
        nodes = {record.node for record in self._disks.records().values()}
        if others := sorted(nodes - {self._host, ""}):
            reason = (
                f"is {self._host}, and {self._disks.directory} has guests of {', '.join(others[:_NAMED])}: set host to "
                "the name that the host had; hosts on one storage need [libvirt] shared_storage"
            )
            raise errors.ConfigError(option="host", reason=reason)

    def cleanup_host(self, host: str) -> None:
        self._connection.close()

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
        return {
            **resources,
            "local_gb": disk.total // units.Gi,
            "disk_available_least": (disk.free - self._disks.promised()) // units.Gi,
            "hypervisor_hostname": node,
            "pci_passthrough_devices": devices,
            "cpu_info": json.dumps(self._connection.call(capabilities.cpu_with_all_features)),
            "numa_topology": {"cells": list(capabilities.cells)} if capabilities.cells else None,
            "supported_instances": capabilities.supported_instances,
            "stats": {
                host_report.SHARED: self._options.shared_storage,
                host_report.DISKS: "libvirt" if self._options.migration_uri else "",
                **self._live(),
                host_report.BRIDGES: ",".join(interfaces.bridges(self._options.bridges)),
            },
        }

    def _live(self) -> JSONObject:
        """Return the part of the report on live migration: the way, the hardware that it takes, and the CPU mode."""
        if not self._options.migration_uri:
            return {host_report.LIVE: ""}
        # An emulated processor is the same everywhere.
        sees_the_host = self.kind == "kvm" and self._options.cpu_mode != "none"
        return {
            host_report.LIVE: f"libvirt-{self.kind}",
            host_report.LIVE_TAKES: f"{host_report.TAKES_CELLS},{host_report.TAKES_VOLUMES}",
            **({host_report.LIVE_CPU: self._options.cpu_mode} if sees_the_host else {}),
        }

    @staticmethod
    def _read_resources(connection: libvirt.virConnect) -> JSONObject:
        _model, memory_mb, cpus, *_shape = connection.getInfo()
        return {
            "vcpus": cpus,
            "memory_mb": memory_mb,
            "hypervisor_type": connection.getType(),
            "hypervisor_version": connection.getVersion(),
        }

    def _read_devices(self, connection: libvirt.virConnect) -> list[JSONObject]:
        devices = connection.listAllDevices(library().VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV)
        return pci_devices.inventory((each.XMLDesc() for each in devices), self._options.pci_devices)

    def estimate_instance_overhead(self, flavor: Flavor) -> dict[str, int]:
        return {"memory_mb": self._options.memory_overhead_mb}

    def get_per_instance_usage(self) -> dict[str, JSONObject]:
        """Return the usage by domain. While libvirt is away, domains that are not ours keep their last values."""
        ours = {uuid: self._usage(uuid, record) for uuid, record in self._disks.records().items()}
        try:
            self._foreign = self._connection.call(lambda connection: self._others(connection, ours.keys()))
        except Unreachable as away:
            LOG.debug("The domains that are not ours cannot be listed: %s", away)
        return {**self._foreign, **ours}

    def list_instance_uuids(self) -> list[str]:
        """Return also guests of which only files are left: their deletion is not done."""
        return sorted({*self.get_per_instance_usage(), *self._disks.left()})

    def _usage(self, uuid: str, record: GuestRecord) -> JSONObject:
        """Return the usage of a guest with a directory here.

        One of another host is not ours: a storage that several hosts have without ``shared_storage`` has the guests of all.
        """
        if self._is_ours(record):
            return record.usage(resized=self._disks.is_grown(uuid))
        return {"uuid": uuid, "memory_mb": record.memory_mb, "node": self._host}

    def _others(self, connection: libvirt.virConnect, ours: Any) -> dict[str, JSONObject]:
        """Return the usage of domains without a directory. One with the mark of this host was made by its agent."""
        found: dict[str, JSONObject] = {}
        for domain in connection.listAllDomains():
            uuid = domain.UUIDString()
            if uuid in ours:
                continue
            try:
                mark, memory_mb = domain_xml.mark_of(domain.XMLDesc(), self._host), domain.maxMemory() // _KIB
            except library().libvirtError:
                # It has ended meanwhile.
                continue
            usage = {"uuid": uuid, "memory_mb": memory_mb, "node": self._host}
            found[uuid] = {**usage, "attempt": int(mark["attempt"])} if mark else usage
        return found
