# SPDX-License-Identifier: Apache-2.0
"""Volumes, snapshots, attachments, pools and volume types.

:mod:`fleet.rpc.clients.operator.volumes` parses the answers of conductors into them.
"""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from fleet.json_codec import JSONObject
from fleet.objects.plans import StoredFailure, TriedPool


class Made(TypedDict):
    """The volumes or snapshots that a request has created."""

    uuid: str
    name: str


class MadeVolumes(TypedDict):
    """The volumes of a request. :param warnings: keys of the request that are not known"""

    volumes: list[Made]
    warnings: list[str]


class AttachmentView(TypedDict):
    """A volume that a guest has, or is to get or lose."""

    uuid: str
    instance: str
    instance_name: str
    volume: str
    volume_name: str
    size_gb: int
    device: str
    status: str
    host: str | None
    created_at: str
    host_id: NotRequired[str | None]


class VolumeFound(TypedDict):
    """A volume in a list that is searched."""

    uuid: str
    name: str
    project_id: str | None
    host: str | None
    pool: str | None
    status: str
    step: str | None
    size_gb: int
    volume_type: str | None
    created_at: str


class StatusCount(TypedDict):
    """The number of matching volumes with one status."""

    state: str
    count: int


class VolumesFound(TypedDict):
    """A part of the list, how many match, and how many of them have each status."""

    volumes: list[VolumeFound]
    total: int
    states: list[StatusCount]


class VolumeMigration(TypedDict):
    """The step of a migration, and the pool that it leads to, or leaves."""

    step: str | None
    pool: str | None
    copied_percent: NotRequired[int]


class StorageView(TypedDict):
    """A volume or a snapshot."""

    uuid: str
    name: str
    size_gb: int
    status: str
    failure: StoredFailure | None
    project_id: str | None
    user_id: str | None
    request_id: str | None
    created_at: str
    updated_at: str | None
    deadline: str | None
    host: str | None
    metadata: dict[str, str]
    host_id: NotRequired[str | None]


class SnapshotView(StorageView):
    """A snapshot. :param volume: uuid of the volume. :param host: ``machine@backend#pool``"""

    volume: str | None
    description: NotRequired[str]


class VolumeView(StorageView):
    """A volume. :param host: ``machine@backend#pool``. :param source: uuid of the volume that it is a copy of"""

    step: str | None
    attempt: int
    volume_type: str | None
    availability_zone: str | None
    description: str
    scheduler_hints: JSONObject
    tried: list[TriedPool]
    source: str | None
    snapshot: str | None
    reference: str | None
    image: str | None
    bootable: NotRequired[bool]
    #: Whether the last migration to another pool has succeeded; None if there was none.
    migrated: NotRequired[bool | None]
    migration: VolumeMigration | None
    attachments: list[AttachmentView]


class VolumeEventView(TypedDict):
    """An event of the history of a volume. :param host: ``machine@backend#pool``"""

    event: str
    attempt: int
    step: str | None
    result: str
    message: str | None
    duration_s: float | None
    host: str | None
    created_at: str
    host_id: NotRequired[str | None]


class ShownVolume(VolumeView):
    """A volume with the names of its snapshots, and what failed in its life."""

    snapshots: list[str]
    faults: list[VolumeEventView]


class PoolView(TypedDict):
    """A pool: capacities in GiB, None if unknown or infinite. :param over_subscription: the ratio that applies"""

    name: str
    availability_zone: str | None
    volume_backend_name: str | None
    total_capacity_gb: float | None
    free_capacity_gb: float | None
    allocated_capacity_gb: int
    provisioned_capacity_gb: float
    reserved_percentage: int
    thin_provisioning_support: bool
    thick_provisioning_support: bool
    total_volumes: int
    capabilities: JSONObject
    max_over_subscription_ratio: str | None
    over_subscription: float
    state: str
    disabled: bool
    updated_at: str | None


class VolumeTypeView(TypedDict):
    """A volume type."""

    id: int | None
    name: str
    description: str
    extra_specs: dict[str, str]
    is_public: NotRequired[bool]


class Manageable(TypedDict):
    """Data on a pool that are no volume. :param reason: why it cannot be managed; empty if it can"""

    pool: str
    reference: str
    size_gb: int | None
    reason: str
