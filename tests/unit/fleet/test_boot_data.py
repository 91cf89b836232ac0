# SPDX-License-Identifier: Apache-2.0
"""Public keys and user data as users send them, right and wrong."""

from __future__ import annotations

import base64

import pytest

from fleet import errors
from fleet.objects import BootData, BuildRequest, KeyPair
from tests import factories

KIND, DATA, _COMMENT = factories.PUBLIC_KEY.split()
#: The number of the key has one byte less than its length says.
SHORT = base64.b64encode(base64.b64decode(DATA)[:-1]).decode()


def test_a_public_key() -> None:
    """White space around it is removed; the fingerprint is ssh-keygen's."""
    key = KeyPair.from_wire({"name": "mine", "public_key": f"{factories.PUBLIC_KEY}\n"})
    assert (factories.PUBLIC_KEY, factories.FINGERPRINT) == (key.public_key, key.fingerprint)


BAD_KEYS = [
    ("empty", "", "must be one line of an OpenSSH public key"),
    ("a private key", "-----BEGIN OPENSSH PRIVATE KEY-----", "must be one line of an OpenSSH public key"),
    ("an unknown kind", f"ssh-dss {DATA}", "must be one line of an OpenSSH public key"),
    ("no data", KIND, "the second word must be base64"),
    ("not base64", f"{KIND} {DATA[:-2]}~~", "the second word must be base64"),
    ("cut off", f"{KIND} {SHORT}", "are not those of a key of the kind ssh-ed25519"),
    ("of another kind", f"ssh-rsa {DATA}", "are not those of a key of the kind ssh-rsa"),
    ("two lines", f"{factories.PUBLIC_KEY}\nssh-rsa {DATA}", "must be one line without control characters"),
    ("too long", f"{KIND} {DATA} {'x' * 20000}", "at most 16384 characters"),
]


@pytest.mark.parametrize(("text", "reason"), [case[1:] for case in BAD_KEYS], ids=[case[0] for case in BAD_KEYS])
def test_a_public_key_that_is_wrong(text: str, reason: str) -> None:
    """The error names the field and what is allowed."""
    with pytest.raises(errors.InvalidInput) as refused:
        KeyPair.from_wire({"name": "mine", "public_key": text})
    assert "key_pair.public_key" == refused.value.field
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("#!/bin/sh", "must be base64"),
        ("A" * 65536, "at most 65535 characters"),
        ("é", "must be base64"),
        (7, "string"),
    ],
)
def test_user_data_that_are_wrong(data: object, reason: str) -> None:
    """The error names the field, and does not repeat the data."""
    with pytest.raises(errors.InvalidInput) as refused:
        BuildRequest.from_wire({"flavor": "small", "user_data": data})
    assert "request.user_data" == refused.value.field
    assert reason in refused.value.reason
    assert "#!" not in str(refused.value)


def test_user_data_are_not_printed() -> None:
    """A value may be in a log line or a traceback."""
    request = BuildRequest.from_wire({"flavor": "small", "user_data": "b3Blbg=="})
    assert "b3Blbg==" not in repr(request) + repr(BootData(user_data="b3Blbg=="))
