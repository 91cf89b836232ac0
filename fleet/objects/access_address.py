# SPDX-License-Identifier: Apache-2.0
"""Addresses that a user writes on an instance, for tools that log in.

The fleet does nothing with them. Called by the modules beside it and those of :mod:`fleet_api.servers`.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated

import pydantic


def _v4(text: str) -> str:
    try:
        return text and str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(f"must be an IPv4 address such as 192.0.2.10, not {text[:50]!r}") from None


def _v6(text: str) -> str:
    try:
        return text and str(ipaddress.IPv6Address(text))
    except ValueError:
        raise ValueError(f"must be an IPv6 address such as 2001:db8::10, not {text[:50]!r}") from None


#: In their canonical form; "" is none.
AccessV4 = Annotated[str, pydantic.Strict(), pydantic.AfterValidator(_v4)]
AccessV6 = Annotated[str, pydantic.Strict(), pydantic.AfterValidator(_v6)]
