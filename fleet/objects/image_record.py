# SPDX-License-Identifier: Apache-2.0
"""An image as the fleet keeps it: the properties that placement reads, and the place of the bytes.

:mod:`fleet.db.catalog.images` stores it, and agents read it before they fetch the bytes.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Literal

import pydantic

from fleet.objects import fields
from fleet.objects.answers.catalog import ImageView
from fleet.objects.image import Image

Format = Literal["raw", "qcow2"]
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


def _location(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if not text.startswith("/") and not (separator and rest and scheme in ("http", "https", "file")):
        raise ValueError("must be an absolute path, or a URL with http, https or file")
    return text


def _checksum(text: str) -> str:
    if text and not _CHECKSUM.fullmatch(text):
        raise ValueError("must be sha256: or sha512: and as many lower-case hexadecimal digits as it has")
    return text


@dataclasses.dataclass(frozen=True)
class ImageRecord:
    """``min_ram`` in MB, ``min_disk`` in GB, ``size`` in bytes (0: not known).

    :param location: path on the hosts, or URL
    :param checksum: of the bytes, ``sha256:HEX`` or ``sha512:HEX``; empty if not known
    """

    name: fields.Name
    location: Annotated[fields.LongText, pydantic.AfterValidator(_location)]
    uuid: fields.Text = ""
    checksum: Annotated[fields.Text, pydantic.AfterValidator(_checksum)] = ""
    disk_format: Format = "raw"
    min_ram: fields.Natural = 0
    min_disk: fields.Natural = 0
    size: fields.Bytes = 0
    properties: fields.Scalars = dataclasses.field(default_factory=dict)
    #: ISO 8601, UTC.
    created_at: fields.Text = ""

    @classmethod
    def from_wire(cls, data: object, field: str = "image") -> ImageRecord:
        return fields.parse(cls, data, field)

    def to_wire(self) -> ImageView:
        return {
            "name": self.name,
            "location": self.location,
            "uuid": self.uuid,
            "checksum": self.checksum,
            "disk_format": self.disk_format,
            "min_ram": self.min_ram,
            "min_disk": self.min_disk,
            "size": self.size,
            "properties": dict(self.properties),
            "created_at": self.created_at,
        }

    def to_image(self) -> Image:
        """Return the image as a build request has it."""
        known = {name: getattr(self, name) for name in ("name", "min_ram", "min_disk", "size", "properties")}
        return Image(id=self.uuid, **known)
