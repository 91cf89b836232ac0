# SPDX-License-Identifier: Apache-2.0
"""The tables of nova that are read, with the columns that are read.

Called by the modules beside it. Types are left to the driver, but those of times.
"""

from __future__ import annotations

import sqlalchemy as sa


def _table(name: str, columns: str) -> sa.TableClause:
    return sa.table(
        name, *(sa.column(each, sa.DateTime if each.endswith(_TIMES) else None) for each in columns.split())
    )


_TIMES = ("_at", "_seen_up")


# The API database. It deletes rows, and marks none as deleted.
CELLS = _table("cell_mappings", "id uuid name disabled database_connection")
HOST_MAPPINGS = _table("host_mappings", "id host cell_id")
AGGREGATES = _table("aggregates", "id uuid name")
AGGREGATE_HOSTS = _table("aggregate_hosts", "aggregate_id host")
AGGREGATE_METADATA = _table("aggregate_metadata", "aggregate_id key value")
FLAVORS = _table("flavors", "id name flavorid memory_mb vcpus root_gb ephemeral_gb swap")
FLAVOR_SPECS = _table("flavor_extra_specs", "flavor_id key value")
REQUEST_SPECS = _table("request_specs", "id instance_uuid spec")
GROUPS = _table("instance_groups", "id uuid name")
GROUP_POLICIES = _table("instance_group_policy", "group_id policy rules")
GROUP_MEMBERS = _table("instance_group_member", "group_id instance_uuid")

# A cell. ``deleted`` is 0, or the id of a deleted row.
SERVICES = _table(
    "services", "id host binary disabled disabled_reason forced_down last_seen_up created_at updated_at deleted"
)
NODES = _table(
    "compute_nodes",
    "id uuid host hypervisor_hostname vcpus vcpus_used memory_mb memory_mb_used local_gb local_gb_used running_vms "
    "cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio hypervisor_type hypervisor_version host_ip cpu_info "
    "supported_instances stats metrics numa_topology pci_stats created_at updated_at deleted",
)
INSTANCES = _table(
    "instances", "uuid host node vm_state task_state instance_type_id project_id created_at updated_at deleted"
)

# Placement. It deletes rows too. A provider's ``generation`` grows with each change of what it offers and of what is taken.
RESOURCE_CLASSES = _table("resource_classes", "id name")
PROVIDERS = _table("resource_providers", "id uuid generation parent_provider_id")
INVENTORIES = _table(
    "inventories",
    "resource_provider_id resource_class_id total reserved min_unit max_unit step_size allocation_ratio",
)
ALLOCATIONS = _table("allocations", "resource_provider_id resource_class_id consumer_id used created_at")
TRAITS = _table("traits", "id name")
PROVIDER_TRAITS = _table("resource_provider_traits", "resource_provider_id trait_id")
PROVIDER_AGGREGATES = _table("resource_provider_aggregates", "resource_provider_id aggregate_id")
PLACEMENT_AGGREGATES = _table("placement_aggregates", "id uuid")

API_TABLES = (
    CELLS,
    HOST_MAPPINGS,
    AGGREGATES,
    AGGREGATE_HOSTS,
    AGGREGATE_METADATA,
    FLAVORS,
    FLAVOR_SPECS,
    REQUEST_SPECS,
    GROUPS,
    GROUP_POLICIES,
    GROUP_MEMBERS,
)
CELL_TABLES = (SERVICES, NODES, INSTANCES)
PLACEMENT_TABLES = (
    RESOURCE_CLASSES,
    PROVIDERS,
    INVENTORIES,
    ALLOCATIONS,
    TRAITS,
    PROVIDER_TRAITS,
    PROVIDER_AGGREGATES,
    PLACEMENT_AGGREGATES,
)
