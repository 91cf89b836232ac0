# SPDX-License-Identifier: Apache-2.0
"""Flavors, images, groups, quotas, key pairs and networks.

:mod:`fleet.rpc.clients.operator.catalog` parses the answers of conductors into them.
"""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict


class FlavorView(TypedDict):
    """A flavor. :param share_of_requests: in the flavor mix, in lists; None if it was not asked for"""

    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    swap: int
    name: str
    flavorid: str
    id: int | None
    extra_specs: dict[str, str]
    is_public: NotRequired[bool]
    description: NotRequired[str | None]
    share_of_requests: NotRequired[float | None]
    share_of_core_hours: NotRequired[float | None]


class ImageView(TypedDict):
    """An image as the fleet keeps it: ``min_ram`` in MB, ``min_disk`` in GB, ``size`` in bytes."""

    name: str
    location: str
    uuid: str
    checksum: str
    disk_format: str
    min_ram: int
    min_disk: int
    size: int
    properties: dict[str, str | int | float | bool | None]
    created_at: str


class RuleView(TypedDict):
    """A rule of a server group over a label of hosts (``fleet.objects.group_rule``): what its policy reads."""

    policy: str
    label: str
    max_members: NotRequired[int]
    max_skew: NotRequired[int]
    values: NotRequired[list[str]]


class GroupView(TypedDict):
    """A server group.

    :param members: uuids of live instances. :param hosts: where they are
    :param rules: missing in the answer of a conductor of an earlier release
    """

    uuid: str
    name: str
    project_id: str | None
    user_id: NotRequired[str | None]
    policy: str
    max_server_per_host: int
    rules: NotRequired[list[RuleView]]
    members: list[str]
    hosts: list[str]


class OwnLimits(TypedDict):
    """The limits of a project by resource, -1 for unlimited. :param own: those that were set for it"""

    project_id: str
    limits: dict[str, int]
    own: dict[str, int]


class QuotaView(OwnLimits):
    """The limits of a project, the limits of projects without own ones, and the use of the project."""

    default: dict[str, int]
    used: dict[str, int]


class NetworkView(TypedDict):
    """A network. :param addresses: of its range. :param used: those that instances have. :param projects: that may use it;
    none: all may. A project is shown itself alone
    """

    uuid: str
    name: str
    bridge: str
    subnet: str
    first: str
    last: str
    gateway: str | None
    dns: list[str]
    is_default: bool
    created_at: str
    projects: NotRequired[list[str]]
    addresses: NotRequired[int]
    used: NotRequired[int]


class KeyPairView(TypedDict):
    """A key pair. :param fingerprint: MD5, in nova's form"""

    name: str
    public_key: str
    created_at: str
    type: str
    fingerprint: str
