# SPDX-License-Identifier: Apache-2.0
"""A ledger in which all holds, and everything in it that a test may spoil."""

from __future__ import annotations

import datetime
import json
from typing import Any

from tests.invariants.ledger import Ledger

NOW = datetime.datetime(2026, 1, 1, 12)


def node(host: str = "a1", **changed: Any) -> dict[str, Any]:
    """10 GB of memory, of which 1 GB is reserved and 1 GB sold."""
    return {
        "host": host,
        "hypervisor_hostname": host,
        "memory_mb": 10240,
        "memory_mb_used": 2048,
        "reserved_memory_mb": 1024,
        "ram_allocation_ratio": 1.0,
        "local_gb": 100,
        "local_gb_used": 10,
        "reserved_disk_gb": 0,
        "disk_allocation_ratio": 1.0,
        "vcpus": 4,
        "vcpus_used": 1,
        "reserved_vcpus": 0,
        "cpu_allocation_ratio": 2.0,
        "orphaned_memory_mb": 0,
        **changed,
    }


def instance(uuid: str = "u1", host: str | None = "a1", **changed: Any) -> dict[str, Any]:
    """ACTIVE on ``host``, or holding nothing."""
    held = 1 if host else 0
    return {
        "uuid": uuid,
        "reservation_id": "r1",
        "vm_state": "active",
        "task_state": None,
        "power_state": 1,
        "attempt": 1,
        "earlier_attempts": 0,
        "launched_at": None,
        "deadline": NOW,
        "host": host,
        "node": host,
        "deleted": False,
        "memory_mb": 1024,
        "claimed_memory_mb": 1024 * held,
        "claimed_disk_gb": 10 * held,
        "claimed_vcpus": held,
        "request_id": "req-1",
        **changed,
    }


def ledger(*instances: dict[str, Any], nodes: list[dict[str, Any]] | None = None, **changed: Any) -> Ledger:
    values = {
        "read_at": NOW,
        "nodes": [node()] if nodes is None else nodes,
        "instances": instances or [instance()],
        "requests": {"r1": {"spec": {}}},
        "events": {},
        "faults": {},
        "groups": {},
        "members": {},
    }
    return Ledger(**{**values, **changed})


def network(**changed: Any) -> dict[str, Any]:
    return {"uuid": "n1", "name": "lab", "bridge": "br0", "subnet": "10.0.0.0/24", **changed}


def address(instance_uuid: str = "u1", number: int = 10, **changed: Any) -> dict[str, Any]:
    """10.0.0.10 in that network."""
    claim = {"network_uuid": "n1", "number": (10 << 24) + number, "mac": f"02:00:00:00:00:{number:02x}"}
    return {"instance_uuid": instance_uuid, **claim, **changed}


def plugged(uuid: str = "u1", number: int = 10, **changed: Any) -> dict[str, Any]:
    """An instance with that address."""
    plug = {"network": "n1", "address": f"10.0.0.{number}", "mac": f"02:00:00:00:00:{number:02x}"}
    return instance(uuid, interfaces=json.dumps([plug]), **changed)


def pool(**changed: Any) -> dict[str, Any]:
    """20 GiB, of which 2 are reserved and 10 claimed by one volume."""
    return {
        "host": "m1@disks",
        "pool": "p",
        "total_capacity_gb": 20.0,
        "reserved_percentage": 10,
        "max_over_subscription_ratio": "1.0",
        "thin_provisioning_support": True,
        "allocated_capacity_gb": 10,
        "total_volumes": 1,
        "capabilities": '{"allocated_capacity_gb": 10}',
        **changed,
    }


def volume(**changed: Any) -> dict[str, Any]:
    """Available on that pool."""
    return {
        "uuid": "v1",
        "snapshot_of": None,
        "status": "available",
        "step": None,
        "attempt": 1,
        "host": "m1@disks",
        "pool": "p",
        "size_gb": 10,
        "claimed_gb": 10,
        "held_host": None,
        "held_pool": None,
        "held_gb": 0,
        "deadline": None,
        "failure": None,
        "deleted": False,
        **changed,
    }


def attempt(number: int, host: str) -> dict[str, Any]:
    return {"event": "attempt", "attempt": number, "host": host}
