# SPDX-License-Identifier: Apache-2.0
"""Calls about volumes, snapshots, pools and volume types. :mod:`fleet.rpc.clients.operator.calls` inherits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, Unpack

from fleet.json_codec import JSONObject
from fleet.objects.answers.volumes import (
    MadeVolumes,
    Manageable,
    PoolView,
    ShownVolume,
    SnapshotView,
    VolumesFound,
    VolumeTypeView,
    VolumeView,
)
from fleet.rpc.clients.operator.caller import Caller
from fleet.rpc.clients.operator.instances import Part, Searching


class Token(TypedDict, total=False):
    """Makes a request safe to repeat."""

    client_token: str


class ToPool(TypedDict, total=False):
    """The destination of a migration: ``machine@backend#pool``."""

    host: str | None


class Policy(TypedDict, total=False):
    """The policy of a retype: whether a volume may migrate if its pool does not suit the new type."""

    migration_policy: str


class NewSnapshot(TypedDict, total=False):
    """The name, the description and the metadata of a snapshot."""

    name: str
    description: str
    metadata: Mapping[str, str]


class Pools(TypedDict, total=False):
    """The pool, or the backend."""

    name: str


class Text(TypedDict, total=False):
    """The description, a new name, and whether every project may use it."""

    description: str
    new_name: str
    is_public: bool


class Deletion(TypedDict, total=False):
    """Snapshots that go with a volume, and a backend that is not waited for."""

    with_snapshots: bool
    force: bool


class TypeChanges(Text, total=False):
    """Changes of a volume type: its name, and whether all projects may use it."""

    is_public: bool


class VolumeCalls(Caller):
    def create_volumes(self, request: JSONObject, **token: Unpack[Token]) -> MadeVolumes:
        return self.call("create_volumes", request=request, **token)

    def manage_volume(self, request: JSONObject, **token: Unpack[Token]) -> MadeVolumes:
        return self.call("manage_volume", request=request, **token)

    def search_volumes(self, **search: Unpack[Searching]) -> VolumesFound:
        return self.call("search_volumes", **search)

    def list_volumes(self, filters: Mapping[str, object], **part: Unpack[Part]) -> list[VolumeView]:
        return self.call("list_volumes", filters=dict(filters), **part)

    def show_volume(self, name: str) -> ShownVolume:
        return self.call("show_volume", name=name)

    def update_volume(self, name: str, changes: Mapping[str, object]) -> VolumeView:
        return self.call("update_volume", name=name, changes=dict(changes))

    def extend_volume(self, name: str, size: int) -> VolumeView:
        return self.call("extend_volume", name=name, size=size)

    def migrate_volume(self, name: str, **to: Unpack[ToPool]) -> VolumeView:
        return self.call("migrate_volume", name=name, **to)

    def retype_volume(self, name: str, volume_type: str, **policy: Unpack[Policy]) -> VolumeView:
        return self.call("retype_volume", name=name, volume_type=volume_type, **policy)

    def delete_volume(self, name: str, **how: Unpack[Deletion]) -> VolumeView:
        return self.call("delete_volume", name=name, **how)

    def unmanage_volume(self, name: str) -> VolumeView:
        return self.call("unmanage_volume", name=name)

    def list_manageable(self, host: str) -> list[Manageable]:
        return self.call("list_manageable", host=host)

    def list_snapshots(self, filters: Mapping[str, object], **part: Unpack[Part]) -> list[SnapshotView]:
        return self.call("list_snapshots", filters=dict(filters), **part)

    def create_snapshot(self, volume: str, **new: Unpack[NewSnapshot]) -> SnapshotView:
        return self.call("create_snapshot", volume=volume, **new)

    def show_snapshot(self, name: str) -> SnapshotView:
        return self.call("show_snapshot", name=name)

    def update_snapshot(self, name: str, changes: Mapping[str, object]) -> SnapshotView:
        return self.call("update_snapshot", name=name, changes=dict(changes))

    def delete_snapshot(self, name: str) -> SnapshotView:
        return self.call("delete_snapshot", name=name)

    def list_pools(self, **of: Unpack[Pools]) -> list[PoolView]:
        return self.call("list_pools", **of)

    def list_volume_types(self) -> list[VolumeTypeView]:
        return self.call("list_volume_types")

    def create_volume_type(self, volume_type: JSONObject) -> VolumeTypeView:
        return self.call("create_volume_type", volume_type=volume_type)

    def update_volume_type(
        self, name: str, extra_specs: Mapping[str, str | None], **changes: Unpack[TypeChanges]
    ) -> VolumeTypeView:
        return self.call("update_volume_type", name=name, extra_specs=dict(extra_specs), **changes)

    def delete_volume_type(self, name: str) -> None:
        self.call("delete_volume_type", name=name)

    def list_volume_type_access(self, name: str) -> list[str]:
        return self.call("list_volume_type_access", name=name)

    def add_volume_type_access(self, name: str, project_id: str) -> list[str]:
        return self.call("add_volume_type_access", name=name, project_id=project_id)

    def remove_volume_type_access(self, name: str, project_id: str) -> list[str]:
        return self.call("remove_volume_type_access", name=name, project_id=project_id)
