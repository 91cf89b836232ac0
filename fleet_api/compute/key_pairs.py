# SPDX-License-Identifier: Apache-2.0
"""Key pairs of the sender.

Called by :mod:`fleet_api.application`. From version 2.92 on the client makes the keys: a private key is never sent.

Before, a request without a public key gets a new key. Its private half is in the answer, and nowhere else.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import Annotated, NotRequired

import falcon
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects import fields, key_pair
from fleet_api.access import identity
from fleet_api.requests import answers, bodies, guard, paging
from fleet_api.requests.conductor import Conductor

_MOST = 1000
#: Versions from which an answer has a form.
_TYPES, _PAGES, _BY_CLIENTS = (2, 2), (2, 35), (2, 92)
_BITS = 2048
_NAMESPACE = uuid.UUID("0b6f4f0e-3a57-4a9c-8a4e-5d1f8f1f5a57")


@dataclasses.dataclass(frozen=True)
class _New:
    __pydantic_config__ = bodies.STRICT

    name: key_pair.PairName
    public_key: key_pair.PublicKey | None = None
    type: key_pair.Type = key_pair.TYPE
    user_id: fields.Text | None = None


class ListedKeyPair(TypedDict):
    name: str
    public_key: str
    fingerprint: str
    type: NotRequired[Annotated[str, answers.since("2.2")]]


class KeyPairOfList(TypedDict):
    keypair: ListedKeyPair


class NewKeyPair(ListedKeyPair):
    user_id: str
    private_key: NotRequired[Annotated[str, answers.until("2.92", "If the request has no public key.")]]


class KeyPairShown(ListedKeyPair):
    id: int
    user_id: str
    created_at: str | None
    deleted: bool
    deleted_at: None
    updated_at: None


def view(request: falcon.Request, found: JSONMapping) -> ListedKeyPair:
    shown: ListedKeyPair = {
        "name": found["name"],
        "public_key": found["public_key"],
        "fingerprint": found["fingerprint"],
    }
    if request.context.version >= _TYPES:
        shown["type"] = found["type"]
    return shown


class KeyPairs:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:keypairs:get")
    @answers.gives(answers.listed("keypairs", KeyPairOfList))
    @bodies.asks("user_id", "limit", "marker")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        _require_own(request, request.get_param("user_id"))
        found = self._conductor.operator(request).list_key_pairs()
        part, more = paging.cut(request, found, [each["name"] for each in found], _MOST)
        response.media = {"keypairs": [{"keypair": view(request, each)} for each in part]}
        if more and request.context.version >= _PAGES:
            response.media["keypairs_links"] = paging.next_link(request, "/os-keypairs", part[-1]["name"])

    @guard.by("compute:keypairs:change")
    @answers.gives(answers.Answer({"keypair": NewKeyPair}), 200, 201)
    @bodies.takes(bodies.Body({"keypair": _New}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = bodies.part(request, "keypair", _New)
        _require_own(request, wanted.user_id)
        _require_known(request, wanted.name)
        public, private = (wanted.public_key, None) if wanted.public_key else _new_key(request)
        named = {"name": wanted.name, "public_key": public}
        made = self._conductor.operator(request).create_key_pair(key_pair=named)
        response.status = falcon.HTTP_201 if request.context.version >= _TYPES else falcon.HTTP_200
        new: NewKeyPair = {**view(request, made), "user_id": _user(request)}
        if private is not None:
            new["private_key"] = private
        response.media = {"keypair": new}

    @guard.by("compute:keypairs:get")
    @answers.gives(answers.Answer({"keypair": KeyPairShown}))
    @bodies.asks("user_id")
    def on_get_one(self, request: falcon.Request, response: falcon.Response, name: str) -> None:
        _require_own(request, request.get_param("user_id"))
        found = self._conductor.operator(request).show_key_pair(name=name)
        shown: KeyPairShown = {
            **view(request, found),
            "id": _number(request, name),
            "user_id": _user(request),
            "created_at": found["created_at"].removesuffix("Z"),
            "deleted": False,
            "deleted_at": None,
            "updated_at": None,
        }
        response.media = {"keypair": shown}

    @guard.by("compute:keypairs:change")
    @answers.gives(answers.NOTHING, 202, 204)
    @bodies.asks("user_id")
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, name: str) -> None:
        _require_own(request, request.get_param("user_id"))
        self._conductor.operator(request).delete_key_pair(name=name)
        response.status = falcon.HTTP_204 if request.context.version >= _TYPES else falcon.HTTP_202


def _require_known(request: falcon.Request, name: str) -> None:
    """:raises errors.InvalidInput: the name has characters that only later versions know"""
    if request.context.version < _BY_CLIENTS and not {".", "@"}.isdisjoint(name):
        raise errors.InvalidInput(field="keypair.name", reason="may have '.' and '@' from version 2.92 on")


def _new_key(request: falcon.Request) -> tuple[str, str]:
    """Return the halves of a new key. :raises errors.InvalidInput: this version does not make keys"""
    if request.context.version >= _BY_CLIENTS:
        raise errors.InvalidInput(field="keypair.public_key", reason="is required")
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} Generated-by-fleet", secret.decode()


def _number(request: falcon.Request, name: str) -> int:
    """Return a number that is always the same for the same key pair, which has none."""
    return uuid.uuid5(_NAMESPACE, f"{_user(request)}/{name}").int >> 97


def _user(request: falcon.Request) -> str:
    found: str = request.context.caller.user_id
    return found


def _require_own(request: falcon.Request, user_id: str | None) -> None:
    """Administrators may act for another user, who is then the one of the calls. :raises Fault:"""
    if user_id and user_id != _user(request):
        identity.act_for(request, user_id)
