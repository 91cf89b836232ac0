# SPDX-License-Identifier: Apache-2.0
"""All tables under one name; queries write ``models.instances``. A program that imports this module has all metadata."""

from __future__ import annotations

from fleet.db.tables.base import METADATA, Timestamp
from fleet.db.tables.catalog import (
    flavor_mix,
    flavor_projects,
    flavors,
    images,
    instance_group_members,
    instance_groups,
    key_pairs,
    project_key_pairs,
    quotas,
)
from fleet.db.tables.hosts import aggregate_hosts, aggregate_metadata, aggregates, compute_nodes, services
from fleet.db.tables.instances import (
    boot_data,
    build_requests,
    instance_events,
    instance_faults,
    instances,
    rebuilt_boot_data,
)
from fleet.db.tables.ledger import generations, message_outcomes, taken_signatures
from fleet.db.tables.moves import migrations
from fleet.db.tables.networks import addresses, network_projects, networks
from fleet.db.tables.operations.acts import administrative_acts
from fleet.db.tables.operations.balance import balance_rounds, balances, guest_loads
from fleet.db.tables.operations.maintenance import maintenance_guests, maintenance_hosts, maintenances
from fleet.db.tables.operations.recovery import recoveries, recovery_domains, recovery_guests, recovery_steps
from fleet.db.tables.operations.tolerances import tolerances
from fleet.db.tables.queue import queue_turns, queued_builds, room_queue
from fleet.db.tables.volumes import (
    storage_pools,
    volume_attachments,
    volume_events,
    volume_requests,
    volume_type_projects,
    volume_types,
    volumes,
)

__all__ = [
    "METADATA",
    "Timestamp",
    "addresses",
    "administrative_acts",
    "aggregate_hosts",
    "aggregate_metadata",
    "aggregates",
    "balance_rounds",
    "balances",
    "boot_data",
    "build_requests",
    "compute_nodes",
    "flavor_mix",
    "flavor_projects",
    "flavors",
    "generations",
    "guest_loads",
    "images",
    "instance_events",
    "instance_faults",
    "instance_group_members",
    "instance_groups",
    "instances",
    "key_pairs",
    "maintenance_guests",
    "maintenance_hosts",
    "maintenances",
    "message_outcomes",
    "migrations",
    "network_projects",
    "networks",
    "project_key_pairs",
    "queue_turns",
    "queued_builds",
    "quotas",
    "rebuilt_boot_data",
    "recoveries",
    "recovery_domains",
    "recovery_guests",
    "recovery_steps",
    "room_queue",
    "services",
    "storage_pools",
    "taken_signatures",
    "tolerances",
    "volume_attachments",
    "volume_events",
    "volume_requests",
    "volume_type_projects",
    "volume_types",
    "volumes",
]
