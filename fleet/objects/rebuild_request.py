# SPDX-License-Identifier: Apache-2.0
"""The request of a client for a rebuild: the guest is made anew from an image, where it is.

Called by :mod:`fleet.objects`.
"""

from __future__ import annotations

import dataclasses

import pydantic

from fleet.objects import fields
from fleet.objects.boot_data import UserData
from fleet.objects.changes import InstanceChanges


@dataclasses.dataclass(frozen=True)
class RebuildRequest:
    """A request to rebuild an instance. A field that is None stays as it is.

    ``image`` is the name or the uuid of a record. ``changes`` are those of ``update_instance``. An empty ``key_name`` and
    empty ``user_data`` remove what the guest has had. ``admin_password`` is for the default user of the guest.
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    image: fields.Name | None = None
    changes: InstanceChanges = dataclasses.field(default_factory=InstanceChanges)
    key_name: fields.Text | None = None
    user_data: UserData | None = dataclasses.field(default=None, repr=False)
    admin_password: fields.Name | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def from_wire(cls, data: object, field: str = "request") -> RebuildRequest:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)
