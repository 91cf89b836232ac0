# SPDX-License-Identifier: Apache-2.0
"""A snapshot of an instance's row, as services exchange it. Conductors send it with each order for an agent."""

from __future__ import annotations

import dataclasses

from fleet.json_codec import JSONObject
from fleet.objects import fields, numa, pci
from fleet.objects.flavor import Flavor
from fleet.objects.image import Image


@dataclasses.dataclass(frozen=True)
class Instance:
    """``host`` and ``node`` are None until a host has claimed the instance. ``attempt`` counts the tried hosts and
    the rebuilds, from 1.
    """

    uuid: fields.Uuid
    flavor: Flavor
    name: fields.Text = ""
    project_id: fields.Text | None = None
    user_id: fields.Text | None = None
    reservation_id: fields.Text = ""
    image: Image = dataclasses.field(default_factory=Image)
    vm_state: fields.Text = ""
    task_state: fields.Text | None = None
    power_state: int = 0
    attempt: int = 0
    host: fields.Text | None = None
    node: fields.Text | None = None
    availability_zone: fields.Text | None = None
    numa_topology: JSONObject | None = None
    pci_requests: list[JSONObject] | None = None
    metadata: fields.Texts = dataclasses.field(default_factory=dict)
    #: ISO 8601, UTC; None if it has not happened.
    created_at: fields.Text | None = None
    launched_at: fields.Text | None = None
    #: Held by the claim of a host; memory includes the driver's overhead. This topology has the host's cells and
    #: CPUs; ``numa_topology`` and ``pci_requests`` are what is asked for.
    claimed_memory_mb: int = 0
    claimed_disk_gb: int = 0
    claimed_vcpus: int = 0
    claimed_numa_topology: JSONObject | None = None
    claimed_pci_devices: list[JSONObject] | None = None
    #: Its plugs into networks (``network.Interface``); None without any.
    interfaces: list[JSONObject] | None = None
    #: Of one that is unshelved: the attempt whose disk was kept. It starts with that disk, not with its image's.
    shelved_attempt: int | None = None
    #: Of its power task, ISO 8601, UTC: a report names the task by it. None without such a task.
    task_deadline: fields.Text | None = None

    # Cells and devices, parsed when a step reads them: a malformed value must not end lists, which do not read it. Each
    # raises errors.InvalidInput, naming the field.

    @property
    def wanted_topology(self) -> numa.InstanceTopology | None:
        """The cells that are asked for."""
        return numa.InstanceTopology.from_wire(self.numa_topology, "instance.numa_topology")

    @property
    def wanted_devices(self) -> tuple[pci.PciRequest, ...]:
        """The devices that are asked for."""
        return pci.requests_from_wire(self.pci_requests, "instance.pci_requests")

    @property
    def claimed_topology(self) -> numa.InstanceTopology | None:
        """The cells and CPUs of the host that the claim holds."""
        return numa.InstanceTopology.from_wire(self.claimed_numa_topology, "instance.claimed_numa_topology")

    @property
    def claimed_devices(self) -> tuple[pci.PciDevice, ...]:
        """The devices of the host that the claim holds."""
        return pci.devices_from_wire(self.claimed_pci_devices, "instance.claimed_pci_devices")

    @classmethod
    def from_wire(cls, data: object, field: str = "instance") -> Instance:
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        # Not asdict, which also copies nested values: an instance is sent with every step of its build.
        return {**vars(self), "flavor": self.flavor.to_wire(), "image": self.image.to_wire()}
