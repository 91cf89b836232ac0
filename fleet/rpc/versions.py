# SPDX-License-Identifier: Apache-2.0
"""The versions of each topic's API that this release speaks, and how they compare."""

from __future__ import annotations

import functools
import importlib.metadata
import types
from collections.abc import Mapping

#: What is served, and sent at most. ``docs/wire-contract.md`` says what came with which version.
CURRENT: dict[str, str] = {"scheduler": "4.3", "conductor": "1.8", "compute": "1.1"}
#: What can still be sent to: a service that does not say what it speaks is taken to speak this.
OLDEST: Mapping[str, str] = types.MappingProxyType({"scheduler": "4.0", "conductor": "1.0", "compute": "1.0"})


@functools.cache
def release() -> str:
    """Of this program, as installed."""
    return importlib.metadata.version("fleet")


def spoken(topic: str) -> dict[str, str]:
    """What a service that serves ``topic`` says of itself: ``rpc_version`` and ``release``."""
    return {"rpc_version": CURRENT[topic], "release": release()}


def accepted(topic: str) -> list[str]:
    """From the oldest that can be sent to the one that is served."""
    major, newest = parse(CURRENT[topic])
    return [f"{major}.{minor}" for minor in range(parse(OLDEST[topic])[1], newest + 1)]


def lower(topic: str, one: str, other: str | None) -> str:
    """The lower of two versions of ``topic``'s API; None, and what makes no sense, is the oldest."""
    try:
        return min(one, other or OLDEST[topic], key=parse)
    except ValueError:
        return OLDEST[topic]


def parse(version: str) -> tuple[int, int]:
    """:raises ValueError: it is not ``MAJOR.MINOR``"""
    major, minor = version.split(".")
    return int(major), int(minor)
