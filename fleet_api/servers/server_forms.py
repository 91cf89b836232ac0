# SPDX-License-Identifier: Apache-2.0
"""The forms in which answers have servers, with the versions of their fields. The document of the API is made from them."""

from __future__ import annotations

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from fleet.json_codec import JSONObject
from fleet_api.requests import answers
from fleet_api.servers.addresses import PlainAddress, ServerAddress


class BriefServer(TypedDict):
    id: str
    name: str
    links: list[answers.Link]


class FlavorLink(TypedDict):
    """Before version 2.47."""

    id: str
    links: list[answers.Link]


class FlavorInside(TypedDict):
    """From version 2.47 on."""

    original_name: str
    vcpus: int
    ram: int
    disk: int
    ephemeral: int
    swap: int
    extra_specs: dict[str, str]


class ImageLink(TypedDict):
    id: str
    links: list[answers.Link]


class ServerVolume(TypedDict):
    id: str
    delete_on_termination: NotRequired[Annotated[bool, answers.since("2.3")]]


class ServerFault(TypedDict):
    code: int
    created: str | None
    message: str


class SecurityGroup(TypedDict):
    name: str


#: Some of its names are no names of Python.
Newer = TypedDict(
    "Newer",
    {
        "OS-EXT-SRV-ATTR:reservation_id": NotRequired[Annotated[str | None, answers.since("2.3")]],
        "OS-EXT-SRV-ATTR:launch_index": NotRequired[Annotated[int, answers.since("2.3")]],
        "OS-EXT-SRV-ATTR:hostname": NotRequired[Annotated[str, answers.since("2.3")]],
        "locked": NotRequired[Annotated[bool, answers.since("2.9")]],
        "host_status": NotRequired[Annotated[str, answers.since("2.16", answers.OF_ALL_PROJECTS)]],
        "description": NotRequired[Annotated[str | None, answers.since("2.19")]],
        "tags": NotRequired[Annotated[list[str], answers.since("2.26")]],
        "trusted_image_certificates": NotRequired[Annotated[None, answers.since("2.63")]],
        "locked_reason": NotRequired[Annotated[str | None, answers.since("2.73")]],
        "pinned_availability_zone": NotRequired[Annotated[None, answers.since("2.96")]],
        "scheduler_hints": NotRequired[Annotated[JSONObject, answers.since("2.100")]],
    },
)

_Listed = TypedDict(
    "_Listed",
    {
        "status": str,
        "tenant_id": str,
        "user_id": str,
        "created": str | None,
        "updated": str | None,
        "hostId": str,
        "image": ImageLink | str,
        "flavor": FlavorLink | FlavorInside,
        "addresses": dict[str, list[ServerAddress]],
        "metadata": dict[str, str],
        "key_name": str | None,
        "config_drive": str,
        "accessIPv4": str,
        "accessIPv6": str,
        "OS-DCF:diskConfig": str,
        "OS-EXT-AZ:availability_zone": str,
        "OS-EXT-STS:task_state": str | None,
        "OS-EXT-STS:vm_state": str,
        "OS-EXT-STS:power_state": int,
        "OS-EXT-SRV-ATTR:host": NotRequired[Annotated[str | None, answers.FOR_ADMINISTRATORS]],
        "OS-EXT-SRV-ATTR:hypervisor_hostname": NotRequired[Annotated[str | None, answers.FOR_ADMINISTRATORS]],
        "OS-EXT-SRV-ATTR:instance_name": NotRequired[Annotated[str, answers.FOR_ADMINISTRATORS]],
        "OS-SRV-USG:launched_at": str | None,
        "OS-SRV-USG:terminated_at": str | None,
        "os-extended-volumes:volumes_attached": list[ServerVolume],
        "progress": NotRequired[int],
        "security_groups": NotRequired[list[SecurityGroup]],
        "fault": NotRequired[ServerFault],
    },
)


class ListedServer(BriefServer, _Listed, Newer):
    """A server as in a list with details."""


class Server(ListedServer):
    """A server as it is shown alone."""

    server_groups: NotRequired[Annotated[list[str], answers.since("2.71")]]


_Changed = TypedDict(
    "_Changed",
    {
        "status": str,
        "tenant_id": str,
        "user_id": str,
        "created": str | None,
        "updated": str | None,
        "hostId": str,
        "image": ImageLink | str,
        "flavor": FlavorLink | FlavorInside,
        "addresses": dict[str, list[PlainAddress]],
        "metadata": dict[str, str],
        "accessIPv4": str,
        "accessIPv6": str,
        "OS-DCF:diskConfig": str,
        "progress": NotRequired[int],
        "fault": NotRequired[ServerFault],
        "locked": NotRequired[Annotated[bool, answers.since("2.9")]],
        "description": NotRequired[Annotated[str | None, answers.since("2.19")]],
        "tags": NotRequired[Annotated[list[str], answers.since("2.26")]],
        "trusted_image_certificates": NotRequired[Annotated[None, answers.since("2.63")]],
        "server_groups": NotRequired[Annotated[list[str], answers.since("2.71")]],
        "locked_reason": NotRequired[Annotated[str | None, answers.since("2.73")]],
    },
)


class ChangedServer(BriefServer, _Changed):
    """A server as the answer to a change shows it before version 2.75."""
