# SPDX-License-Identifier: Apache-2.0
"""Boot data of the instances of a request: a public key, a password, and user data with secrets.

They are kept apart from the request, so that no message, log line or record of it has them. Only the host of an instance
reads them.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Annotated

import pydantic

from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.key_pair import PublicKey

#: Characters of base64, as nova has it.
LONGEST = 65535


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None
    return text


#: Base64 of any bytes.
UserData = Annotated[
    str, pydantic.Strict(), pydantic.StringConstraints(max_length=LONGEST), pydantic.AfterValidator(_base64)
]


@dataclasses.dataclass(frozen=True)
class BootData:
    """Empty if the request named none. User data and password are not in the value's ``repr``.

    ``admin_password`` is for the default user of the guest. ``hostname`` is "" from a conductor that is too old for it.
    """

    key_name: fields.Text = ""
    public_key: PublicKey | None = None
    user_data: UserData = dataclasses.field(default="", repr=False)
    admin_password: fields.Text = dataclasses.field(default="", repr=False)
    hostname: fields.Text = ""

    @classmethod
    def from_wire(cls, data: object, field: str = "boot_data") -> BootData:
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)
