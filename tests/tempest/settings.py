# SPDX-License-Identifier: Apache-2.0
"""``tempest.conf``: where the cloud is, and what it has. What it does not have is named in docs/http-api.md."""

from __future__ import annotations

import configparser
import pathlib
from collections.abc import Mapping

from tests.tempest import cloud, identity

#: What a fleet does not have, by section: Tempest skips its tests. docs/http-api.md names each.
ABSENT: Mapping[str, tuple[str, ...]] = {
    "service_available": ("neutron", "swift"),
    "compute-feature-enabled": (
        *("pause", "rescue", "snapshot", "interface_attach", "attach_encrypted_volume", "config_drive", "personality"),
        *("swap_volume", "change_password", "vnc_console", "spice_console", "serial_console", "volume_multiattach"),
        *("metadata_service", "unified_limits"),
    ),
    "volume-feature-enabled": ("backup", "replication", "manage_snapshot"),
}
_PRESENT: Mapping[str, tuple[str, ...]] = {
    "service_available": ("nova", "cinder", "glance"),
    "compute-feature-enabled": (
        *("disk_config", "console_output", "resize", "shelve", "suspend", "cold_migration", "live_migration"),
        *("block_migration_for_live_migration", "enable_instance_password", "hostname_fqdn_sanitization"),
    ),
    "volume-feature-enabled": ("multi_backend", "snapshot", "clone", "manage_volume", "extend_volume_with_snapshot"),
}


def write(path: pathlib.Path, made: cloud.Cloud) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict(_values(path.parent, made))
    for known, value in ((ABSENT, "false"), (_PRESENT, "true")):
        for section, names in known.items():
            parser.read_dict({section: dict.fromkeys(names, value)})
    with path.open("w") as file:
        parser.write(file)


def _values(directory: pathlib.Path, made: cloud.Cloud) -> dict[str, dict[str, str]]:
    return {
        "DEFAULT": {"log_file": str(directory / "tempest.log"), "debug": "true"},
        "oslo_concurrency": {"lock_path": str(directory / "locks")},
        "auth": {
            "use_dynamic_credentials": "true",
            "create_isolated_networks": "false",
            "tempest_roles": "member",
            "admin_username": identity.ADMIN,
            "admin_password": identity.PASSWORD,
            "admin_project_name": identity.ADMIN,
            "admin_domain_name": "Default",
        },
        "identity": {"uri_v3": made.keystone.url, "auth_version": "v3", "region": identity.REGION},
        "compute": {
            "image_ref": made.images[0],
            "image_ref_alt": made.images[1],
            "flavor_ref": made.flavors[0],
            "flavor_ref_alt": made.flavors[1],
            "min_compute_nodes": str(cloud.HOSTS),
            "min_microversion": "2.1",
            "max_microversion": "2.100",
            "build_timeout": "120",
        },
        "compute-feature-enabled": {"scheduler_enabled_filters": ",".join(cloud.FILTERS + cloud.GROUPS)},
        "validation": {"run_validation": "false"},
        "volume": {
            "backend_names": ",".join(cloud.BACKENDS),
            "min_microversion": "3.0",
            "max_microversion": "3.71",
            "storage_protocol": "fake",
            "vendor_name": "fleet",
            "manage_volume_ref": "source-name,unmanaged-%s",
            "build_timeout": "120",
        },
    }
