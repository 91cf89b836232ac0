# SPDX-License-Identifier: Apache-2.0
"""The kinds of the answers: each responder declares what it sends, and the document of the API has it.

A kind is a ``TypedDict`` beside the function that makes it, as that function's return type. pydantic makes its schema.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet.json_codec import JSONObject

#: Key of :func:`given_by` for all failures.
FAILURE = "default"

Responder = TypeVar("Responder", bound=Callable[..., None])


@dataclasses.dataclass(frozen=True)
class Answer:
    """The body of an answer: an object with the keys of ``parts``, and those of ``optional`` in some answers.

    With ``entire`` the whole body is of that kind. With none of them the answer has no body.
    """

    parts: Mapping[str, object] = dataclasses.field(default_factory=dict)
    optional: Mapping[str, object] = dataclasses.field(default_factory=dict)
    entire: object = None
    media_type: str = falcon.MEDIA_JSON

    def kinds(self) -> list[Any]:
        """Return the kinds that have a schema."""
        return [kind for kind in (*self.parts.values(), *self.optional.values(), self.entire) if kind is not None]


class Link(TypedDict):
    rel: str
    href: str


#: The answer without a body.
NOTHING = Answer()
#: An object whose form is that of an RPC.
AsOnTheWire = JSONObject


def gives(answer: Answer, *statuses: int | str) -> Callable[[Responder], Responder]:
    """Declare what a responder sends with each of these statuses, by default 200. A responder may have several."""

    def decorate(responder: Responder) -> Responder:
        named = {str(status): answer for status in statuses or (200,)}
        responder.answers = {**named, **given_by(responder)}  # type: ignore[attr-defined]
        return responder

    return decorate


def given_by(responder: Callable[..., None]) -> Mapping[str, Answer]:
    """Return the answers of a responder, by status."""
    found: Mapping[str, Answer] = getattr(responder, "answers", {})
    return found


def listed(name: str, kind: Any, **more: object) -> Answer:
    """Return the answer with a list, and the link to its next part. :param more: further keys of some answers"""
    return Answer({name: list[kind]}, {f"{name}_links": list[Link], **more})


def since(version: str, more: str = "") -> Any:
    """Return the mark of a field that answers have from this microversion on."""
    return pydantic.Field(description=f"From version {version} on. {more}".strip())


def until(version: str, more: str = "") -> Any:
    """Return the mark of a field that answers have before this microversion."""
    return pydantic.Field(description=f"Before version {version}. {more}".strip())


#: Said of fields that only some senders get, and the mark of such a field.
OF_ALL_PROJECTS = "Only for users who may see all projects."
FOR_ADMINISTRATORS = pydantic.Field(description=OF_ALL_PROJECTS)
