# SPDX-License-Identifier: Apache-2.0
"""The configuration files of a cloud, to be filled in by :mod:`tests.nova.cloud`."""

from __future__ import annotations

API_PASTE = """\
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: versions
/v2.1: versions_v2
/v2.1/+: compute
[composite:compute]
use = call:nova.api.auth:pipeline_factory_v21
keystone = request_id faults limit anybody context application
[filter:anybody]
paste.filter_factory = stand_ins:auth_factory
[filter:request_id]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory
[filter:faults]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:limit]
paste.filter_factory = oslo_middleware:RequestBodySizeLimiter.factory
[filter:context]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory
[app:application]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[app:versions]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
[app:versions_v2]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
"""

NOVA = """\
[DEFAULT]
host = {host}
my_ip = 127.0.0.1
state_path = {state}
compute_driver = {driver}
transport_url = {broker}
report_interval = 2
service_down_time = 120
update_resources_interval = 5
running_deleted_instance_poll_interval = 5
reserved_host_memory_mb = 512
rpc_response_timeout = 60
long_rpc_timeout = 180
osapi_compute_workers = 1
debug = False
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = {paste}
[api_database]
connection = {api}
[database]
connection = {cell}
[conductor]
workers = 2
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 5
[filter_scheduler]
track_instance_changes = true
[placement]
auth_type = admin_token
token = admin
endpoint = http://127.0.0.1:{placement}
[glance]
endpoint_override = http://127.0.0.1:{services}
auth_type = none
[neutron]
endpoint_override = http://127.0.0.1:{services}
auth_type = none
[cinder]
endpoint_template = http://127.0.0.1:{services}/v3
[service_user]
send_service_user_token = false
[oslo_concurrency]
lock_path = {state}
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
[quota]
instances = -1
cores = -1
ram = -1
server_group_members = -1
[compute]
build_failure_weight_multiplier = 0
[workarounds]
never_download_image_if_on_rbd = true
"""

PLACEMENT = """\
[placement_database]
connection = {database}
sync_on_startup = true
[api]
auth_strategy = noauth2
"""

CLOUDS = """\
clouds:
  trial:
    auth_type: none
    auth: {{endpoint: "{services}"}}
    compute_endpoint_override: {api}
    identity_api_version: "3"
    identity_endpoint_override: {services}/v3
    image_endpoint_override: {services}/v2
    network_endpoint_override: {services}
"""

FLEET = """\
[DEFAULT]
host = fleet-scheduler
report_interval = 2
service_down_time = 120
scheduler_compare_period = 10
debug = true
{more}
[health]
port = {health}
service_offset = 0
[nova]
transport_url = {broker}
api_connection = {api}
cell_connection = {cell}
placement = claim
placement_connection = {placement_database}
service_connection = {row}
limit_tenants_to_placement_aggregate = true
enable_isolated_aggregate_filtering = true
[decisions]
file = {decisions}
[oslo_messaging_notifications]
driver = messagingv2
[notifications]
notification_format = both
[placement]
auth_type = admin_token
token = admin
endpoint = http://127.0.0.1:{placement}
"""

#: What only nova-scheduler reads, so that its notifications alone are sent.
NOVA_SCHEDULER = """\
[scheduler]
limit_tenants_to_placement_aggregate = true
enable_isolated_aggregate_filtering = true
[oslo_messaging_notifications]
driver = messagingv2
[notifications]
notification_format = both
"""

#: Name and id, memory in MB, vcpus; the disk has 1 GB.
FLAVORS = (("tiny", 64, 1), ("small", 512, 1), ("medium", 1024, 2), ("huge", 512_000, 1), ("wide", 64, 8))

#: The default of nova 34.
NOVAS_FILTERS = (
    "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,"
    "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"
)

#: The filter of the README, behind the default ones.
SPECIFIED_HOST = """\
scheduler_available_filters = scheduler.filters.all_filters
scheduler_available_filters = specified_host.SpecifiedHostFilter
scheduler_default_filters = AvailabilityZoneFilter,RamFilter,DiskFilter,CoreFilter,ComputeFilter,\
ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,SpecifiedHostFilter
"""
