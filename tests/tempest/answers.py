# SPDX-License-Identifier: Apache-2.0
"""Which schema of Tempest's package holds for the answers of a route: its module and name there."""

from __future__ import annotations

from collections.abc import Mapping

Schema = tuple[str, str]


_SERVER = "/v2.1/servers/{server_id}"
COMPUTE: Mapping[str, Schema] = {
    "GET /v2.1/servers": ("servers", "list_servers"),
    "GET /v2.1/servers/detail": ("servers", "list_servers_detail"),
    f"GET {_SERVER}": ("servers", "get_server"),
    f"PUT {_SERVER}": ("servers", "update_server"),
    f"DELETE {_SERVER}": ("servers", "delete_server"),
    f"GET {_SERVER}/metadata": ("servers", "list_server_metadata"),
    f"POST {_SERVER}/metadata": ("servers", "update_server_metadata"),
    f"PUT {_SERVER}/metadata": ("servers", "set_server_metadata"),
    f"GET {_SERVER}/metadata/{{key}}": ("servers", "set_show_server_metadata_item"),
    f"PUT {_SERVER}/metadata/{{key}}": ("servers", "set_show_server_metadata_item"),
    f"DELETE {_SERVER}/metadata/{{key}}": ("servers", "delete_server_metadata_item"),
    f"GET {_SERVER}/tags": ("servers", "list_tags"),
    f"PUT {_SERVER}/tags": ("servers", "update_all_tags"),
    f"DELETE {_SERVER}/tags": ("servers", "delete_all_tags"),
    f"GET {_SERVER}/tags/{{tag}}": ("servers", "check_tag_existence"),
    f"DELETE {_SERVER}/tags/{{tag}}": ("servers", "delete_tag"),
    f"GET {_SERVER}/os-volume_attachments": ("servers", "list_volume_attachments"),
    f"POST {_SERVER}/os-volume_attachments": ("servers", "attach_volume"),
    f"GET {_SERVER}/os-volume_attachments/{{volume_id}}": ("servers", "show_volume_attachment"),
    f"DELETE {_SERVER}/os-volume_attachments/{{volume_id}}": ("servers", "detach_volume"),
    f"GET {_SERVER}/os-interface": ("interfaces", "list_interfaces"),
    f"GET {_SERVER}/os-instance-actions": ("servers", "list_instance_actions"),
    f"GET {_SERVER}/os-instance-actions/{{request_id}}": ("servers", "show_instance_action"),
    f"GET {_SERVER}/ips": ("servers", "list_addresses"),
    f"GET {_SERVER}/ips/{{network}}": ("servers", "list_addresses_by_network"),
    "GET /v2.1/os-migrations": ("migrations", "list_migrations"),
    "GET /v2.1/flavors": ("flavors", "list_flavors"),
    "GET /v2.1/flavors/detail": ("flavors", "list_flavors_details"),
    "POST /v2.1/flavors": ("flavors", "create_flavor_details"),
    "GET /v2.1/flavors/{flavor_id}": ("flavors", "get_flavor_details"),
    "PUT /v2.1/flavors/{flavor_id}": ("flavors", "update_flavor"),
    "DELETE /v2.1/flavors/{flavor_id}": ("flavors", "delete_flavor"),
    "GET /v2.1/flavors/{flavor_id}/os-extra_specs": ("flavors_extra_specs", "set_get_flavor_extra_specs"),
    "POST /v2.1/flavors/{flavor_id}/os-extra_specs": ("flavors_extra_specs", "set_get_flavor_extra_specs"),
    "GET /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": ("flavors_extra_specs", "set_get_flavor_extra_specs_key"),
    "PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": ("flavors_extra_specs", "set_get_flavor_extra_specs_key"),
    "DELETE /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": ("flavors_extra_specs", "unset_flavor_extra_specs"),
    "GET /v2.1/flavors/{flavor_id}/os-flavor-access": ("flavors_access", "add_remove_list_flavor_access"),
    "POST /v2.1/flavors/{flavor_id}/action": ("flavors_access", "add_remove_list_flavor_access"),
    "GET /v2.1/os-hypervisors": ("hypervisors", "list_search_hypervisors"),
    "GET /v2.1/os-hypervisors/detail": ("hypervisors", "list_hypervisors_detail"),
    "GET /v2.1/os-hypervisors/statistics": ("hypervisors", "get_hypervisor_statistics"),
    "GET /v2.1/os-hypervisors/{hypervisor_id}": ("hypervisors", "get_hypervisor"),
    "GET /v2.1/os-hypervisors/{hypervisor_id}/servers": ("hypervisors", "get_hypervisors_servers"),
    "GET /v2.1/os-hypervisors/{hypervisor_id}/search": ("hypervisors", "list_search_hypervisors"),
    "GET /v2.1/os-services": ("services", "list_services"),
    "PUT /v2.1/os-services/{service_id}": ("services", "update_service"),
    "GET /v2.1/os-availability-zone": ("availability_zone", "list_availability_zone_list"),
    "GET /v2.1/os-availability-zone/detail": ("availability_zone", "list_availability_zone_list_detail"),
    "GET /v2.1/os-aggregates": ("aggregates", "list_aggregates"),
    "POST /v2.1/os-aggregates": ("aggregates", "create_aggregate"),
    "GET /v2.1/os-aggregates/{aggregate_id}": ("aggregates", "get_aggregate"),
    "PUT /v2.1/os-aggregates/{aggregate_id}": ("aggregates", "update_aggregate"),
    "POST /v2.1/os-aggregates/{aggregate_id}/action": ("aggregates", "aggregate_add_remove_host"),
    "GET /v2.1/os-server-groups": ("server_groups", "list_server_groups"),
    "POST /v2.1/os-server-groups": ("server_groups", "create_show_server_group"),
    "GET /v2.1/os-server-groups/{group_id}": ("server_groups", "create_show_server_group"),
    "DELETE /v2.1/os-server-groups/{group_id}": ("server_groups", "delete_server_group"),
    "GET /v2.1/os-keypairs": ("keypairs", "list_keypairs"),
    "POST /v2.1/os-keypairs": ("keypairs", "create_keypair"),
    "GET /v2.1/os-keypairs/{name}": ("keypairs", "get_keypair"),
    "DELETE /v2.1/os-keypairs/{name}": ("keypairs", "delete_keypair"),
    "GET /v2.1/limits": ("limits", "get_limit"),
    "GET /v2.1/os-quota-sets/{project_id}": ("quotas", "get_quota_set"),
    "GET /v2.1/os-quota-sets/{project_id}/detail": ("quotas", "get_quota_set_details"),
    "GET /v2.1/os-quota-sets/{project_id}/defaults": ("quotas", "get_quota_set"),
    "PUT /v2.1/os-quota-sets/{project_id}": ("quotas", "update_quota_set"),
    "DELETE /v2.1/os-quota-sets/{project_id}": ("quotas", "delete_quota"),
    "GET /v2.1/os-quota-class-sets/{quota_class}": ("quota_classes", "get_quota_class_set"),
    "GET /v2.1/os-simple-tenant-usage": ("tenant_usages", "list_tenant_usage"),
    "GET /v2.1/os-simple-tenant-usage/{project_id}": ("tenant_usages", "get_tenant_usage"),
    "GET /": ("versions", "list_versions"),
    "GET /v2.1": ("versions", "get_one_version"),
}
#: Schemas under which others hold: ``flavors`` has one for three answers before version 2.55.
SAME: Mapping[Schema, Schema] = {
    ("flavors", each): ("flavors", "create_update_get_flavor_details")
    for each in ("create_flavor_details", "get_flavor_details", "update_flavor")
}
#: Routes that older versions do not have, with the first version that has them.
SINCE: Mapping[tuple[str, str], tuple[int, int]] = {
    ("compute", "PUT /v2.1/flavors/{flavor_id}"): (2, 55),
    ("volume", "GET /v3/volumes/summary"): (3, 12),
}
#: Routes that newer versions do not have, with the first of these.
UNTIL: Mapping[tuple[str, str], tuple[int, int]] = {
    ("compute", "GET /v2.1/os-hypervisors/statistics"): (2, 88),
    ("compute", "GET /v2.1/os-hypervisors/{hypervisor_id}/servers"): (2, 53),
    ("compute", "GET /v2.1/os-hypervisors/{hypervisor_id}/search"): (2, 53),
}
_VOLUME, _SNAPSHOT, _TYPE = "/v3/volumes/{volume_id}", "/v3/snapshots/{snapshot_id}", "/v3/types/{type_id}"
VOLUME: Mapping[str, Schema] = {
    "GET /v3": ("versions", "volume_api_version_details"),
    "GET /v3/volumes": ("volumes", "list_volumes_no_detail"),
    "GET /v3/volumes/detail": ("volumes", "list_volumes_detail"),
    "POST /v3/volumes": ("volumes", "create_volume"),
    "GET /v3/volumes/summary": ("volumes", "show_volume_summary"),
    f"GET {_VOLUME}": ("volumes", "show_volume"),
    f"PUT {_VOLUME}": ("volumes", "update_volume"),
    f"GET {_VOLUME}/metadata": ("volumes", "show_volume_metadata"),
    f"POST {_VOLUME}/metadata": ("volumes", "create_volume_metadata"),
    f"PUT {_VOLUME}/metadata": ("volumes", "update_volume_metadata"),
    f"GET {_VOLUME}/metadata/{{key}}": ("volumes", "show_volume_metadata_item"),
    f"PUT {_VOLUME}/metadata/{{key}}": ("volumes", "update_volume_metadata_item"),
    f"DELETE {_VOLUME}/metadata/{{key}}": ("volumes", "delete_volume_metadata_item"),
    "GET /v3/snapshots": ("snapshots", "list_snapshots_no_detail"),
    "GET /v3/snapshots/detail": ("snapshots", "list_snapshots_with_detail"),
    "POST /v3/snapshots": ("snapshots", "create_snapshot"),
    f"GET {_SNAPSHOT}": ("snapshots", "show_snapshot"),
    f"PUT {_SNAPSHOT}": ("snapshots", "update_snapshot"),
    f"DELETE {_SNAPSHOT}": ("snapshots", "delete_snapshot"),
    f"GET {_SNAPSHOT}/metadata": ("snapshots", "show_snapshot_metadata"),
    f"POST {_SNAPSHOT}/metadata": ("snapshots", "create_snapshot_metadata"),
    f"PUT {_SNAPSHOT}/metadata": ("snapshots", "update_snapshot_metadata"),
    f"GET {_SNAPSHOT}/metadata/{{key}}": ("snapshots", "show_snapshot_metadata_item"),
    f"PUT {_SNAPSHOT}/metadata/{{key}}": ("snapshots", "update_snapshot_metadata_item"),
    f"DELETE {_SNAPSHOT}/metadata/{{key}}": ("snapshots", "delete_snapshot_metadata_item"),
    "GET /v3/types": ("volume_types", "list_volume_types"),
    "POST /v3/types": ("volume_types", "create_volume_type"),
    f"GET {_TYPE}": ("volume_types", "show_volume_type"),
    f"PUT {_TYPE}": ("volume_types", "update_volume_types"),
    f"DELETE {_TYPE}": ("volume_types", "delete_volume_type"),
    f"GET {_TYPE}/extra_specs": ("volume_types", "list_volume_types_extra_specs"),
    f"POST {_TYPE}/extra_specs": ("volume_types", "create_volume_types_extra_specs"),
    f"GET {_TYPE}/extra_specs/{{key}}": ("volume_types", "show_volume_types_extra_specs"),
    f"PUT {_TYPE}/extra_specs/{{key}}": ("volume_types", "update_volume_type_extra_specs"),
    f"DELETE {_TYPE}/extra_specs/{{key}}": ("volume_types", "delete_volume_types_extra_specs"),
    "GET /v3/scheduler-stats/get_pools": ("scheduler_stats", "get_pools_no_detail"),
    "GET /v3/os-services": ("services", "list_services"),
    "PUT /v3/os-services/{action}": ("services", "disable_service"),
    "GET /v3/limits": ("limits", "show_limits"),
    "GET /v3/os-quota-sets/{project_id}": ("quotas", "show_quota_set"),
    "GET /v3/os-quota-sets/{project_id}/defaults": ("quotas", "show_quota_set"),
    "PUT /v3/os-quota-sets/{project_id}": ("quotas", "update_quota_set"),
    "DELETE /v3/os-quota-sets/{project_id}": ("quotas", "delete_quota_set"),
    "GET /v3/os-quota-class-sets/{quota_class}": ("quota_classes", "show_quota_classes"),
    "POST /v3/os-volume-manage": ("manage_volume", "manage_volume"),
}
#: Routes of which the package has no schema any more from a version on, though they are there: fields that came then.
BEYOND: Mapping[tuple[str, str], tuple[int, int]] = {
    **{("compute", f"GET /v2.1/os-hypervisors{path}"): (2, 88) for path in ("/detail", "/{hypervisor_id}")},
    **{("volume", f"{method} {_SNAPSHOT}"): (3, 41) for method in ("GET", "PUT")},
    **{
        ("volume", f"{route}"): (3, 41)
        for route in ("POST /v3/snapshots", "GET /v3/snapshots/detail", "GET /v3/snapshots")
    },
    ("volume", f"PUT {_VOLUME}"): (3, 61),
    ("volume", "POST /v3/os-volume-manage"): (3, 61),
}
