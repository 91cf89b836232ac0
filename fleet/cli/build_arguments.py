# SPDX-License-Identifier: Apache-2.0
"""The arguments that say what is to be built: shared by boot, explain, capacity and resize."""

from __future__ import annotations

import argparse
from typing import Any

from fleet.cli import command

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
    """What a request may say of the hosts it goes to."""
    parser.add_argument("--hint", type=command.pair, action="append", default=[], metavar="KEY=VALUE",
                        help="Scheduler hint; repeat for several, or for several values of one key.")  # fmt: skip
    parser.add_argument("--availability-zone", default="", metavar="ZONE[:HOST[:NODE]]",
                        help="A zone, or a host or node that is forced on the scheduler.")  # fmt: skip
    parser.add_argument("--group", default="", help="Name or uuid of a server group to join.")
    parser.add_argument("--image-property", type=command.pair, action="append", default=[], metavar="KEY=VALUE",
                        help="Property of the image; repeat for several.")  # fmt: skip


def build_request(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """The BuildRequest of a command line; commands that build nothing have no name, and one that only counts no count."""
    fewest = getattr(parsed_args, "min_count", None)
    return {
        **({"min_count": fewest} if fewest else {}),
        "name": getattr(parsed_args, "name", ""),
        "flavor": parsed_args.flavor,
        "count": getattr(parsed_args, "count", 1),
        "availability_zone": parsed_args.availability_zone,
        "scheduler_hints": hints(parsed_args.hint),
        "group": parsed_args.group,
        "image": {"properties": dict(parsed_args.image_property)},
    }


def hints(pairs: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    """A key given several times becomes a list of its values."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: given[0] if len(given) == 1 else given for key, given in values.items()}


def flavor(text: str) -> str | dict[str, int]:
    """An argparse type: a flavor's name, or inline sizes."""
    if "=" not in text:
        return text
    sizes = dict(command.pair(part) for part in text.split(","))
    unknown = ", ".join(sorted(set(sizes) - set(_SIZES)))
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown}: a flavor has only {', '.join(_SIZES)}")
    return {name: command.natural(value) for name, value in sizes.items()}
