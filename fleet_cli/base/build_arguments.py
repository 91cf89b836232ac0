# SPDX-License-Identifier: Apache-2.0
"""The arguments that describe a build, shared by boot, explain, capacity and resize.

Each of these commands adds them to its parser.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Sequence

from fleet import errors
from fleet.client import argument_types, connection, pages
from fleet.client.calls import Calls
from fleet.json_codec import JSONObject
from fleet.objects import ImageRecord
from fleet.objects.network import AUTO, NONE

_IMAGE_TEXTS = ("id", "name", "status")
_IMAGE_NUMBERS = ("min_disk", "min_ram", "size")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")


Arguments = argparse.ArgumentParser | argparse._ArgumentGroup


def add_flavor(parser: Arguments, required: bool) -> None:
    parser.add_argument(
        "--flavor",
        required=required,
        type=flavor,
        help="A flavor's name, or its sizes, such as vcpus=2,memory_mb=2048,root_gb=10.",
    )


def add_conditions(parser: Arguments) -> None:
    """Add the conditions that a request may set for its hosts."""
    parser.add_argument("--hint", type=argument_types.pair, action="append", default=[], metavar="KEY=VALUE",
                        help="Scheduler hint; repeat for several, or for several values of one key.")  # fmt: skip
    parser.add_argument("--availability-zone", metavar="ZONE[:HOST[:NODE]]",
                        help="A zone, or a host or node that is forced on the scheduler.")  # fmt: skip
    parser.add_argument("--group", help="Name or uuid of a server group to join.")
    parser.add_argument("--image", type=image, default={}, metavar="IMAGE|KEY=VALUE,...",
                        help="Name or uuid of an image of 'fleet image list', or the id of another, or what is "
                        "known of it, such as "
                        "id=cirros,name=cirros,min_disk=1,min_ram=64,size=21430272 (min_disk in GB, min_ram in MB, size "
                        "in bytes). The flavor must be large enough for it.")  # fmt: skip
    parser.add_argument("--image-property", type=argument_types.pair, action="append", default=[], metavar="KEY=VALUE",
                        help="Property of the image; repeat for several.")  # fmt: skip
    parser.add_argument("--ignore-host", action="append", default=[], metavar="HOST",
                        help="A host that is not to be chosen; repeat for several.")  # fmt: skip
    parser.add_argument("--network", type=network, action="append", default=[],
                        metavar="NETWORK[,address=ADDRESS]|auto|none",
                        help="A network that the guests are plugged into, by name or uuid, and the address that the only "
                        "guest gets; repeat for several. auto: the default network, or the only one that the project may "
                        "use, if there is one. Default: auto.")  # fmt: skip
    parser.add_argument("--project", metavar="ID", help="The project that the instances belong to. Default: none.")
    parser.add_argument("--user", metavar="ID", help="The user that the instances belong to. Default: none.")


def conditions_given(parsed_args: argparse.Namespace) -> list[str]:
    """Return the options of :func:`add_conditions` that a command line has, such as ``--hint``."""
    parser = argparse.ArgumentParser(add_help=False)
    add_conditions(parser)
    defaults = vars(parser.parse_args([]))
    return [f"--{name.replace('_', '-')}" for name in defaults if getattr(parsed_args, name) != defaults[name]]


def add_build(parser: Arguments) -> None:
    """Add the other properties of the instances."""
    parser.add_argument("--metadata", "--property", type=argument_types.pair, action="append", default=[],
                        metavar="KEY=VALUE", help="Metadata of the instances; repeat for several.")  # fmt: skip
    parser.add_argument("--description", default="", help="A description of the instances.")
    parser.add_argument("--tag", action="append", default=[], help="A tag of the instances; repeat for several.")
    parser.add_argument("--key-name", metavar="KEYPAIR",
                        help="The user's key pair whose public key the guests accept: 'fleet keypair list'.")  # fmt: skip
    parser.add_argument("--user-data", type=argument_types.file, metavar="FILE",
                        help="A file that the guests' cloud-init reads at the first boot: at most 49149 bytes.")  # fmt: skip
    parser.add_argument("--volume", action="append", default=[], metavar="VOLUME",
                        help="A volume that the instance has from its first boot on, by name or uuid; repeat for several. "
                        "With --count 1 only.")  # fmt: skip
    parser.add_argument("--no-retry", action="store_true", help="Try one host only: a build that fails there ends in "
                        "ERROR. Default: up to scheduler_max_attempts hosts.")  # fmt: skip
    parser.add_argument("--wait-for-capacity", type=argument_types.duration, metavar="DURATION",
                        help="How long the builds wait if no host has room, such as 90s, 30m, 2h or 1d; 0: they end in "
                        "ERROR at once. Default: [conductor] wait_for_capacity of the project.")  # fmt: skip


def build_request(conductor: Calls, parsed_args: argparse.Namespace) -> JSONObject:
    """Return the BuildRequest of a command line.

    :raises connection.CommandFailed: the image, or a host to be ignored, does not exist
    """
    if parsed_args.ignore_host:
        _require_hosts(conductor, parsed_args.ignore_host)
    fewest = getattr(parsed_args, "min_count", None)
    wait_s = getattr(parsed_args, "wait_for_capacity", None)
    return {
        **({"min_count": fewest} if fewest else {}),
        "name": getattr(parsed_args, "name", ""),
        "flavor": parsed_args.flavor,
        "count": getattr(parsed_args, "count", 1),
        "availability_zone": parsed_args.availability_zone or "",
        "scheduler_hints": hints(parsed_args.hint),
        "group": parsed_args.group or "",
        "image": _image_of(conductor, parsed_args.image, dict(parsed_args.image_property)),
        "networks": _networks(parsed_args.network),
        **({"ignore_hosts": parsed_args.ignore_host} if parsed_args.ignore_host else {}),
        **({"metadata": dict(parsed_args.metadata)} if getattr(parsed_args, "metadata", ()) else {}),
        **{
            key: getattr(parsed_args, name)
            for key, name in (("description", "description"), ("tags", "tag"))
            if getattr(parsed_args, name, None)
        },
        **({"key_name": parsed_args.key_name} if getattr(parsed_args, "key_name", None) else {}),
        **({"user_data": base64.b64encode(data).decode()} if (data := getattr(parsed_args, "user_data", b"")) else {}),
        **(
            {"block_device_mapping": [{"volume_id": each} for each in asked]}
            if (asked := getattr(parsed_args, "volume", ()))
            else {}
        ),
        **({"max_attempts": 1} if getattr(parsed_args, "no_retry", False) else {}),
        **({"wait_for_capacity_s": wait_s} if wait_s is not None else {}),
    }


def _image_of(conductor: Calls, given: dict[str, str | int], properties: dict[str, str]) -> JSONObject:
    """Return the image with the fields of the fleet's record.

    :raises connection.CommandFailed: no record has this id, name or beginning of an id
    """
    if set(given) != {"id"} or not conductor.serves("show_image"):
        return {**given, "properties": properties}
    try:
        known = ImageRecord.from_wire(conductor.operator.show_image(name=str(given["id"]))).to_image().to_wire()
    except errors.VersionPinned:
        return {**given, "properties": properties}
    except errors.NotFound:
        advice = (
            "'fleet image list' names the images; for one that is not among them, give its properties: id=ID,min_ram=MB"
        )
        raise connection.CommandFailed(f"--image {given['id']}: no such image; {advice}") from None
    return {**known, "properties": {**known["properties"], **properties}}


def _networks(given: Sequence[str | dict[str, str]]) -> str | list[dict[str, str]]:
    """:raises connection.CommandFailed: auto or none stands beside another network"""
    words = [each for each in given if isinstance(each, str)]
    if words and len(given) > 1:
        raise connection.CommandFailed(f"--network {words[0]} stands alone, not beside other networks")
    return words[0] if words else [each for each in given if isinstance(each, dict)] or AUTO


def _require_hosts(conductor: Calls, names: Sequence[str]) -> None:
    """:raises connection.CommandFailed:"""
    known = {each["host"] for each in pages.hosts(conductor.operator)}
    for name in names:
        if name not in known:
            raise connection.CommandFailed(f"--ignore-host {name}: no such host; 'fleet host list' names the hosts")


def hints(pairs: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Return the hints; a key given several times has a list of its values."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: given[0] if len(given) == 1 else given for key, given in values.items()}


def image(text: str) -> dict[str, str | int]:
    """An argparse type: an image's id, or its properties."""
    if "=" not in text:
        return {"id": argument_types.text(text)}
    told = dict(argument_types.pair(part) for part in text.split(","))
    unknown = ", ".join(sorted(set(told) - {*_IMAGE_TEXTS, *_IMAGE_NUMBERS}))
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown}: an image has only {', '.join((*_IMAGE_TEXTS, *_IMAGE_NUMBERS))}")
    return {name: _number(name, value) if name in _IMAGE_NUMBERS else value for name, value in told.items()}


def network(text: str) -> str | dict[str, str]:
    """An argparse type: auto, none, or a network with or without an address."""
    if text in (AUTO, NONE):
        return text
    name, comma, rest = text.partition(",")
    key, equals, address = rest.partition("=")
    if not name or comma and (key != "address" or not equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NETWORK or NETWORK,address=ADDRESS")
    return {"network": name, **({"address": address} if comma else {})}


def flavor(text: str) -> str | dict[str, int]:
    """An argparse type: a flavor's name, or inline sizes."""
    if "=" not in text:
        return argument_types.text(text)
    pairs = [argument_types.pair(part) for part in text.split(",")]
    sizes = dict(pairs)
    if len(sizes) < len(pairs):
        raise argparse.ArgumentTypeError(f"{text!r} names a size twice")
    unknown = ", ".join(sorted(set(sizes) - set(_SIZES)))
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown}: a flavor has only {', '.join(_SIZES)}")
    return {name: _number(name, value) for name, value in sizes.items()}


def _number(name: str, text: str) -> int:
    """:raises argparse.ArgumentTypeError: the field is named"""
    try:
        return argument_types.size(text) if name == "size" else argument_types.natural(text)
    except argparse.ArgumentTypeError as wrong:
        raise argparse.ArgumentTypeError(f"{name} {wrong}") from None
