# SPDX-License-Identifier: Apache-2.0
"""``fleet image``: records of images, with the places of their bytes.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import typing
from collections.abc import Iterable

from fleet.client import argument_types
from fleet.client.connection import Record
from fleet.objects import image_record
from fleet_cli.base import command, listing

COLUMNS = (
    *("name", "uuid", "location", "checksum", "disk_format", "size"),
    *("min_ram", "min_disk", "properties", "created_at"),
)
_IMAGE = command.argument("image", help="Name or uuid.")
_NUMBERS = ("min_ram", "min_disk", "size")


class ListImages(listing.List):
    """List the images."""

    things = "images"
    brief = ("name", "uuid", "disk_format", *_NUMBERS)
    whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_images()


class ShowImage(command.ShowOne):
    """Show an image."""

    arguments = (_IMAGE,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.one(COLUMNS, self.conductor.operator.show_image(name=parsed_args.image))


class CreateImage(command.ShowOne):
    """Record an image; boot from it with 'fleet boot --image'. The bytes stay where they are."""

    arguments = (
        command.argument("name"),
        command.argument(
            "--location", required=True, metavar="PATH|URL", help="A path on the hosts, or an http, https or file URL."
        ),
        command.argument("--checksum", metavar="sha256:HEX|sha512:HEX"),
        command.argument(
            "--disk-format", choices=typing.get_args(image_record.Format), default="raw", help="Default: %(default)s."
        ),
        command.argument(
            "--min-ram",
            type=argument_types.natural,
            default=0,
            metavar="MB",
            help="The least memory that a flavor for it must have. Default: %(default)s.",
        ),
        command.argument(
            "--min-disk",
            type=argument_types.natural,
            default=0,
            metavar="GB",
            help="The least root disk that a flavor for it must have. Default: %(default)s.",
        ),
        command.argument(
            "--size", type=argument_types.size, default=0, metavar="BYTES", help="Default: 0, which is not known."
        ),
        command.pairs(
            "--property",
            dest="properties",
            help="Property that filters read, such as hw_architecture=x86_64; repeat for several.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        texts = ("name", "location", "checksum", "disk_format")
        image = {name: getattr(parsed_args, name) for name in (*texts, *_NUMBERS)}
        image["checksum"] = image["checksum"] or ""
        created = self.conductor.operator.create_image(image={**image, "properties": dict(parsed_args.properties)})
        return command.one(COLUMNS, created)


class DeleteImage(command.Command):
    """Delete the record of an image. The bytes stay, and so do the instances that were built from it."""

    arguments = (_IMAGE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_image(name=parsed_args.image)
