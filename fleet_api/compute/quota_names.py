# SPDX-License-Identifier: Apache-2.0
"""The limits that the compute API has, and those that the API of volumes has, with their names there.

Clients of one service refuse the names of the other one. Called by :mod:`fleet_api.compute.quotas` and
:mod:`fleet_api.compute.limits`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from fleet.objects import key_pair
from fleet_api.requests import microversions
from fleet_api.requests.microversions import Service, Version

#: Classes of quotas have lost names later than quota sets.
_CLASSES = (2, 50)


@dataclasses.dataclass(frozen=True)
class Face:
    """The names that quota sets show. An administrator sets the limits of ``limited``; those of ``fixed`` are fleet's own.
    ``unlimited`` have none and show -1. ``until`` has names of older versions.

    ``absolute`` are the names of a limit and of its use in ``/limits``, ``constant`` those that have one value there.
    """

    service: Service
    limited: Sequence[str]
    unlimited: Sequence[str]
    fixed: Mapping[str, int]
    #: Limits of the conductor that go when the quotas of a project are deleted.
    own: Sequence[str]
    until: Sequence[tuple[Version, Sequence[str]]]
    absolute: Mapping[str, tuple[str, str]]
    constant: Sequence[tuple[Version | None, Mapping[str, int]]]

    def names(self, version: Version, of_class: bool = False) -> Iterator[str]:
        """Yield the names that quota sets of a version have. :param of_class: those of a class of quotas"""
        yield from self.limited
        yield from self.fixed
        yield from self.unlimited
        for end, names in self.until:
            if version < (max(end, _CLASSES) if of_class else end):
                yield from names

    def all_names(self) -> set[str]:
        """Return the names that quota sets have in any version."""
        return {*self.limited, *self.fixed, *self.unlimited, *(name for _, names in self.until for name in names)}

    def constants(self, version: Version) -> dict[str, int]:
        """Return the entries of ``/limits`` that are no resources of a fleet."""
        found: dict[str, int] = {}
        for end, values in self.constant:
            if end is None or version < end:
                found.update(values)
        return found


COMPUTE = Face(
    service=microversions.COMPUTE,
    limited=("instances", "cores", "ram", "server_groups"),
    unlimited=("metadata_items", "server_group_members"),
    fixed={"key_pairs": key_pair.MOST},
    own=("instances", "cores", "ram", "local_gb", "server_groups"),
    until=(
        ((2, 57), ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")),
        ((2, 36), ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")),
    ),
    absolute={
        "instances": ("maxTotalInstances", "totalInstancesUsed"),
        "cores": ("maxTotalCores", "totalCoresUsed"),
        "ram": ("maxTotalRAMSize", "totalRAMUsed"),
        "server_groups": ("maxServerGroups", "totalServerGroupsUsed"),
    },
    constant=(
        (None, {"maxTotalKeypairs": key_pair.MOST, **dict.fromkeys(("maxServerGroupMembers", "maxServerMeta"), -1)}),
        ((2, 57), {"maxPersonality": -1, "maxPersonalitySize": -1}),
        ((2, 39), {"maxImageMeta": -1}),
        (
            (2, 36),
            {
                **dict.fromkeys(("maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules"), -1),
                **dict.fromkeys(("totalFloatingIpsUsed", "totalSecurityGroupsUsed"), 0),
            },
        ),
    ),
)
VOLUMES = Face(
    service=microversions.VOLUME,
    limited=("volumes", "gigabytes"),
    fixed={},
    unlimited=("snapshots", "per_volume_gigabytes", "backups", "backup_gigabytes", "groups"),
    own=("volumes", "gigabytes"),
    until=(),
    absolute={
        "volumes": ("maxTotalVolumes", "totalVolumesUsed"),
        "gigabytes": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
        "snapshots": ("maxTotalSnapshots", "totalSnapshotsUsed"),
    },
    constant=(
        (
            None,
            {
                **dict.fromkeys(("maxTotalBackups", "maxTotalBackupGigabytes"), -1),
                **dict.fromkeys(("totalBackupsUsed", "totalBackupGigabytesUsed"), 0),
            },
        ),
    ),
)
