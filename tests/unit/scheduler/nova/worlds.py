# SPDX-License-Identifier: Apache-2.0
"""Three hosts of a nova cell, and the endpoint over them."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_messaging.rpc import dispatcher

from fleet.clock import epoch_s
from fleet.context import new_context
from fleet.db.feed.feed import ChangedAggregate, Changes
from fleet.rpc.notifier import Silence
from scheduler.compute.drivers import driver_loading
from scheduler.nova.endpoint import NovaEndpoint
from scheduler.nova.placement import Placement
from scheduler.nova.placing import Placing
from scheduler.nova.polling import polled
from scheduler.nova.rebuild import RebuildCheck
from scheduler.nova.rows import InstanceRow, NodeRow, ServiceRow
from tests.clock import FakeClock
from tests.factories import NOW, uuid
from tests.unit.scheduler.nova.test_claims import FakeAdapter
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_host_manager import FakeFeed

CELL, OTHER_CELL = "f8464d1d-76ba-4d71-b8b1-338b6e4feb55", "0e1fa5bd-5b07-4f4e-b0e6-0a0c3a2b1b11"
HOSTS = ("cmp1", "cmp2", "cmp3")
#: uuids of the compute nodes, which are their providers.
UUIDS = {host: uuid(101 + number) for number, host in enumerate(HOSTS)}


def node_row(host: str, **fields: Any) -> NodeRow:
    """8 vcpus, 8 GB of memory, 1 TB of disk, empty, of nova's fake driver."""
    values = dict(
        id=HOSTS.index(host) + 1 if host in HOSTS else 0,
        uuid=UUIDS.get(host),
        host=host,
        hypervisor_hostname=host,
        cell_uuid=CELL,
        cell_disabled=False,
        vcpus=8,
        vcpus_used=0,
        memory_mb=8192,
        free_ram_mb=8192,
        local_gb=1024,
        local_gb_used=0,
        free_disk_gb=1024,
        reserved_vcpus=0,
        reserved_memory_mb=0,
        reserved_disk_gb=0,
        cpu_allocation_ratio=4.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
        running_vms=0,
        io_workload=0,
        failed_builds=0,
        hypervisor_type="fake",
        hypervisor_version=1000,
        host_ip="127.0.0.1",
        cpu_info="{}",
        supported_instances='[["x86_64", "fake", "hvm"]]',
        numa_topology="",
        pci_stats="",
        stats="{}",
        metrics="[]",
        updated_at=NOW,
        deleted=False,
    )
    return NodeRow(**{**values, **fields})


def instance_row(number: int, host: str | None, **fields: Any) -> InstanceRow:
    values = dict(
        uuid=uuid(number),
        host=host,
        node=host,
        vm_state="active",
        task_state=None,
        instance_type_id=1,
        project_id="p1",
        deleted=False,
    )
    return InstanceRow(**{**values, **fields})


class EndpointInMemory:
    """The endpoint over three hosts, cmp1 in zone az1; ``adapter`` is its placement, None to claim nothing."""

    def __init__(self, *nodes: NodeRow, claims: bool = True, instances: Any = (), **options: Any) -> None:
        nodes = nodes or tuple(node_row(host) for host in HOSTS)
        zone = ChangedAggregate(
            1, "agg1", ["cmp1"], {"availability_zone": "az1"}, uuid="8ebb2558-8339-4309-adb6-bbbec0619d32"
        )
        services = [ServiceRow(each.host, last_seen_up=NOW) for each in nodes]
        everything = Changes(1, full=True, nodes=nodes, services=services, aggregates=[zone], instances=list(instances))
        self.feed = FakeFeed(everything)
        conf = configuration(scheduler_max_attempts=3, **options)
        self.clock = FakeClock()
        feeds = [self.feed, FakeFeed()]
        self.driver = driver_loading.build_driver(conf, lambda: feeds.pop(0), Silence(), self.clock, polled)
        self.host_manager = self.driver.host_manager
        self.adapter = FakeAdapter(**{UUIDS[host]: 8 for host in HOSTS}) if claims else None
        placement = Placement(self.adapter) if claims else None
        self.placing = Placing(self.driver, placement, 2, "nova")
        self.endpoint = NovaEndpoint(self.driver, self.placing, RebuildCheck(conf, self.host_manager))
        assert epoch_s(self.clock()) == epoch_s(NOW)

    def select(self, arguments: dict[str, Any]) -> Any:
        return self.endpoint.select_destinations(new_context(), **arguments)

    def refused(self, arguments: dict[str, Any]) -> str:
        """The reason that arrives at nova."""
        with pytest.raises(dispatcher.ExpectedException) as refusal:
            self.select(arguments)
        failure = refusal.value.exc_info[1]
        assert ("NoValidHost", "nova.exception") == (type(failure).__name__, type(failure).__module__)
        return failure.kwargs["reason"]

    def bookings(self) -> int:
        return self.host_manager.counts()["bookings"]
