# SPDX-License-Identifier: Apache-2.0
"""A user's key pair: the public half of an SSH key, which a guest accepts.

Part of :mod:`fleet.objects.boot_data`. :mod:`fleet_api.compute.key_pairs` checks keys with it.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
from typing import Annotated, Literal

import pydantic

from fleet.objects import fields
from fleet.objects.answers.catalog import KeyPairView

#: What nova calls the only kind of key pairs that fleet has.
Type = Literal["ssh"]
TYPE: Type = "ssh"
#: Characters of a public key: an RSA key of 16384 bits has fewer than 3000.
_LONGEST = 16384
#: Key pairs of a user in a project: an answer has all of them, and a broker carries no message of more than 16 MiB.
MOST = 500
_KINDS = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
_LENGTH = 4


def _public_key(text: str) -> str:
    """Check the form ``KIND BASE64 [COMMENT]`` of OpenSSH, and that the data have the kind and whole parts."""
    text = text.strip()
    kind, _, rest = text.partition(" ")
    if kind not in _KINDS:
        raise ValueError(f"must be one line of an OpenSSH public key, which begins with one of {', '.join(_KINDS)}")
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    parts = _parts(_data(text))
    if not parts or parts[0] != kind.encode() or len(parts) < 2:
        raise ValueError(f"is damaged: its data are not those of a key of the kind {kind}")
    return text


def _data(public_key: str) -> bytes:
    try:
        return base64.b64decode(public_key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        raise ValueError("is damaged: the second word must be base64") from None


def _parts(data: bytes) -> list[bytes]:
    """Return the parts of a key's data, each after its length; an empty list if the last one is not whole."""
    found = []
    while data:
        length = int.from_bytes(data[:_LENGTH], "big")
        part, data = data[_LENGTH : _LENGTH + length], data[_LENGTH + length :]
        if len(part) < length or not length:
            return []
        found.append(part)
    return found


PublicKey = Annotated[
    str,
    pydantic.Strict(),
    pydantic.StringConstraints(max_length=_LONGEST),
    pydantic.AfterValidator(_public_key),
]


#: A name of a key pair, as nova has it. It stands in paths, as :data:`fields.MetadataKey` does.
PairName = Annotated[
    fields.Name,
    fields.Matching(
        r"(?!\.{1,2}$)[a-zA-Z0-9._\-@ ]{1,255}",
        "1 to 255 ASCII letters, digits, blanks and characters of '._-@', and neither '.' nor '..'",
    ),
]


@dataclasses.dataclass(frozen=True)
class KeyPair:
    """``name`` is unique among the key pairs of a user. Those of earlier releases may have other characters."""

    name: PairName
    public_key: PublicKey
    #: ISO 8601, UTC.
    created_at: fields.Text = ""

    @classmethod
    def from_wire(cls, data: object, field: str = "key_pair") -> KeyPair:
        return fields.parse(cls, data, field)

    def to_wire(self) -> KeyPairView:
        return {
            "name": self.name,
            "public_key": self.public_key,
            "created_at": self.created_at,
            "type": TYPE,
            "fingerprint": self.fingerprint,
        }

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint in nova's form: the MD5 hash of the key's data as pairs of hexadecimal digits."""
        return hashlib.md5(_data(self.public_key), usedforsecurity=False).digest().hex(":")
