# SPDX-License-Identifier: Apache-2.0
"""Host names of guests: given by users, or made of the names of instances.

Conductors set them when they accept a build, a rebuild or a new name.
"""

from __future__ import annotations

import re
from typing import Annotated

import pydantic

_NOT_IN_HOST_NAMES = re.compile(r"[^a-z0-9-]+")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
LONGEST_LABEL, _LONGEST = 63, 255


def _host_name(text: str) -> str:
    if len(text) > _LONGEST or not all(_LABEL.fullmatch(label) for label in text.split(".")):
        raise ValueError(
            f"must be a host name: labels of at most {LONGEST_LABEL} letters, digits and '-', with dots between them, "
            f"at most {_LONGEST} characters in all"
        )
    return text


#: With or without a domain.
HostName = Annotated[str, pydantic.Strict(), pydantic.AfterValidator(_host_name)]


def of(name: str) -> str:
    """The part of an instance's name that a host name may have; ``guest`` if there is none."""
    return _NOT_IN_HOST_NAMES.sub("-", name.lower()).strip("-")[:LONGEST_LABEL].rstrip("-") or "guest"


def numbered(name: str, index: int) -> str:
    """The host name of one of several instances of a request: ``web.example`` becomes ``web-2.example``.

    :param index: from 0 on
    """
    label, dot, domain = name.partition(".")
    suffix = f"-{index + 1}"
    return f"{label[: LONGEST_LABEL - len(suffix)]}{suffix}{dot}{domain}"
