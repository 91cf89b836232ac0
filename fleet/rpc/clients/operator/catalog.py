# SPDX-License-Identifier: Apache-2.0
"""Calls about flavors, images, groups, quotas, key pairs and networks.

:mod:`fleet.rpc.clients.operator.calls` inherits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from fleet.json_codec import JSONObject
from fleet.objects.answers.catalog import (
    FlavorView,
    GroupView,
    ImageView,
    KeyPairView,
    NetworkView,
    OwnLimits,
    QuotaView,
)
from fleet.rpc.clients.operator.caller import Caller


class FlavorChanges(TypedDict, total=False):
    """Sizes, a new name, description and ``is_public``; extra specs, of which None removes one."""

    changes: JSONObject
    extra_specs: Mapping[str, str | None]


class OfProject(TypedDict, total=False):
    """The only project whose objects are wanted."""

    project_id: str


class GroupOptions(TypedDict, total=False):
    """``max_server_per_host`` of a group with the policy anti-affinity, and rules over labels."""

    max_server_per_host: int
    rules: Sequence[Mapping[str, object]]


class GroupChanges(TypedDict, total=False):
    """Changes of a group."""

    new_name: str
    policy: str
    max_server_per_host: int
    rules: Sequence[Mapping[str, object]]


class CatalogCalls(Caller):
    def list_flavors(self) -> list[FlavorView]:
        return self.call("list_flavors")

    def create_flavor(self, flavor: JSONObject) -> FlavorView:
        return self.call("create_flavor", flavor=flavor)

    def show_flavor(self, name: str) -> FlavorView:
        return self.call("show_flavor", name=name)

    def update_flavor(self, name: str, **changes: Unpack[FlavorChanges]) -> FlavorView:
        return self.call("update_flavor", name=name, **changes)

    def delete_flavor(self, name: str) -> None:
        self.call("delete_flavor", name=name)

    def list_flavor_access(self, name: str) -> list[str]:
        return self.call("list_flavor_access", name=name)

    def add_flavor_access(self, name: str, project_id: str) -> list[str]:
        return self.call("add_flavor_access", name=name, project_id=project_id)

    def remove_flavor_access(self, name: str, project_id: str) -> list[str]:
        return self.call("remove_flavor_access", name=name, project_id=project_id)

    def list_images(self) -> list[ImageView]:
        return self.call("list_images")

    def create_image(self, image: JSONObject) -> ImageView:
        return self.call("create_image", image=image)

    def show_image(self, name: str) -> ImageView:
        return self.call("show_image", name=name)

    def delete_image(self, name: str) -> None:
        self.call("delete_image", name=name)

    def list_groups(self, **of: Unpack[OfProject]) -> list[GroupView]:
        return self.call("list_groups", **of)

    def create_group(self, name: str, policy: str, **options: Unpack[GroupOptions]) -> GroupView:
        return self.call("create_group", name=name, policy=policy, **options)

    def show_group(self, name: str) -> GroupView:
        return self.call("show_group", name=name)

    def update_group(self, name: str, **changes: Unpack[GroupChanges]) -> GroupView:
        return self.call("update_group", name=name, **changes)

    def delete_group(self, name: str) -> None:
        self.call("delete_group", name=name)

    def list_quotas(self) -> list[OwnLimits]:
        return self.call("list_quotas")

    def show_quota(self, project_id: str | None = None) -> QuotaView:
        """:param project_id: None: that of the caller, who acts for one"""
        named = {} if project_id is None else {"project_id": project_id}
        return self.call("show_quota", **named)

    def set_quota(self, project_id: str, limits: Mapping[str, int | None]) -> QuotaView:
        return self.call("set_quota", project_id=project_id, limits=dict(limits))

    def delete_quota(self, project_id: str) -> None:
        self.call("delete_quota", project_id=project_id)

    def list_key_pairs(self) -> list[KeyPairView]:
        return self.call("list_key_pairs")

    def create_key_pair(self, key_pair: JSONObject) -> KeyPairView:
        return self.call("create_key_pair", key_pair=key_pair)

    def show_key_pair(self, name: str) -> KeyPairView:
        return self.call("show_key_pair", name=name)

    def delete_key_pair(self, name: str) -> None:
        self.call("delete_key_pair", name=name)

    def list_networks(self) -> list[NetworkView]:
        return self.call("list_networks")

    def create_network(self, network: JSONObject) -> NetworkView:
        return self.call("create_network", network=network)

    def show_network(self, name: str) -> NetworkView:
        return self.call("show_network", name=name)

    def delete_network(self, name: str) -> None:
        self.call("delete_network", name=name)
