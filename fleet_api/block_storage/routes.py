# SPDX-License-Identifier: Apache-2.0
"""The paths of the API of volumes. :mod:`fleet_api.application` adds them."""

from __future__ import annotations

from fleet_api.access import known_projects
from fleet_api.block_storage.existing import ExistingVolumes
from fleet_api.block_storage.pools import Pools
from fleet_api.block_storage.services import BackendServices
from fleet_api.block_storage.snapshots import Snapshots
from fleet_api.block_storage.volume_types import VolumeTypes
from fleet_api.block_storage.volumes import Volumes
from fleet_api.compute import quota_names
from fleet_api.compute.limits import Limits
from fleet_api.compute.quotas import QuotaClasses, Quotas
from fleet_api.requests.conductor import Conductor


def routes(
    conductor: Conductor, most: int, require_project: known_projects.Require
) -> list[tuple[str, object, str | None]]:
    """Path below ``/v3``, resource and suffix.

    :param most: most entries in one answer
    :param require_project: raises errors.InvalidInput for a project that is not there
    """
    volumes, snapshots = Volumes(conductor, most), Snapshots(conductor, most)
    types, pools = VolumeTypes(conductor, most), Pools(conductor)
    quotas = Quotas(conductor, quota_names.VOLUMES, require_project)
    existing, services = ExistingVolumes(conductor), BackendServices(conductor)
    of_volumes, of_snapshots = volumes.metadata(), snapshots.metadata()
    return [
        ("/volumes", volumes, None),
        ("/volumes/detail", volumes, "detail"),
        ("/volumes/{volume_id}", volumes, "one"),
        ("/volumes/summary", volumes, "summary"),
        ("/volumes/{volume_id}/metadata", of_volumes, None),
        ("/volumes/{volume_id}/metadata/{key}", of_volumes, "key"),
        ("/volumes/{volume_id}/action", volumes, "action"),
        ("/os-volume-manage", existing, None),
        ("/os-volume-manage/detail", existing, "detail"),
        ("/manageable_volumes", existing, None),
        ("/manageable_volumes/detail", existing, "detail"),
        ("/snapshots", snapshots, None),
        ("/snapshots/detail", snapshots, "detail"),
        ("/snapshots/{snapshot_id}", snapshots, "one"),
        ("/snapshots/{snapshot_id}/metadata", of_snapshots, None),
        ("/snapshots/{snapshot_id}/metadata/{key}", of_snapshots, "key"),
        ("/types", types, None),
        ("/types/default", types, "default"),
        ("/types/{type_id}", types, "one"),
        ("/types/{type_id}/action", types, "action"),
        ("/types/{type_id}/os-volume-type-access", types, "access"),
        ("/types/{type_id}/extra_specs", types, "extra_specs"),
        ("/types/{type_id}/extra_specs/{key}", types, "extra_spec"),
        ("/scheduler-stats/get_pools", pools, None),
        ("/os-services", services, None),
        ("/os-services/{action}", services, "action"),
        ("/os-availability-zone", pools, "zones"),
        ("/limits", Limits(conductor, quota_names.VOLUMES), None),
        ("/os-quota-class-sets/{quota_class}", QuotaClasses(conductor, quota_names.VOLUMES), None),
        ("/os-quota-sets/{project_id}", quotas, None),
        ("/os-quota-sets/{project_id}/defaults", quotas, "defaults"),
    ]
