# SPDX-License-Identifier: Apache-2.0
"""Tells uuids and their beginnings from names, so that no name can be taken for another object's uuid.

A text of :data:`SHORTEST` or more characters that a uuid could begin with stands for uuids. Every other text is a name;
``1``, ``ab`` and ``cafe`` are names. Called where a request gives a name to something, and by
:mod:`fleet.db.hosts.lookup`.
"""

from __future__ import annotations

import re
import uuid
from typing import Annotated

import pydantic
from oslo_utils import uuidutils

from fleet.objects import fields

#: Least characters of a uuid's beginning: as many as the lists of the ``fleet`` command show.
SHORTEST = 8
_FORM = "00000000-0000-0000-0000-000000000000"
_DIGIT = re.compile("[0-9a-f]")


def canonical(text: str) -> str | None:
    """Return the uuid in lower case with dashes; None if ``text`` is no uuid in any form."""
    return str(uuid.UUID(text)) if uuidutils.is_uuid_like(text) else None


def is_beginning(text: str) -> bool:
    """Return True if ``text`` is the beginning of a uuid, or all of it."""
    return len(text) >= SHORTEST and _DIGIT.sub("0", text.lower()) == _FORM[: len(text)]


def _no_uuid(text: str) -> str:
    if is_beginning(text) or canonical(text) is not None:
        raise ValueError(f"must not be a uuid, or {SHORTEST} or more characters that a uuid could begin with")
    return text


#: Names that users give. :class:`GivenText` may be empty: the object then gets a name.
GivenName = Annotated[fields.Name, pydantic.AfterValidator(_no_uuid)]
GivenText = Annotated[fields.Text, pydantic.AfterValidator(_no_uuid)]
