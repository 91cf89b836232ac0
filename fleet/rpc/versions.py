# SPDX-License-Identifier: Apache-2.0
"""The versions of each topic's API that this release speaks, and how they compare.

Clients choose by it what they may send, and servers refuse by it.
"""

from __future__ import annotations

import functools
import importlib.metadata
import types
from collections.abc import Mapping

#: The version that is served, and the newest that is sent. ``docs/wire-contract.md`` lists the changes of each
#: version.
CURRENT: dict[str, str] = {
    "scheduler": "4.11",
    "conductor": "1.26",
    "compute": "1.6",
    "volume": "1.2",
    "volume_scheduler": "1.1",
}
#: The oldest version that can still be sent. A service that does not report its version is assumed to speak this one.
OLDEST: Mapping[str, str] = types.MappingProxyType(
    {"scheduler": "4.0", "conductor": "1.0", "compute": "1.0", "volume": "1.0", "volume_scheduler": "1.0"}
)


@functools.cache
def release() -> str:
    """Return the version of the installed program."""
    return importlib.metadata.version("fleet")


def spoken(topic: str) -> dict[str, str]:
    """Return the ``rpc_version`` and ``release`` that a service of ``topic`` reports about itself."""
    return {"rpc_version": CURRENT[topic], "release": release()}


def accepted(topic: str) -> list[str]:
    """Return the versions from the oldest that can be sent to the one that is served."""
    major, newest = parse(CURRENT[topic])
    return [f"{major}.{minor}" for minor in range(parse(OLDEST[topic])[1], newest + 1)]


def lower(topic: str, one: str, other: str | None) -> str:
    """Return the lower of two versions of ``topic``'s API. None, and text that is no version, count as the oldest."""
    try:
        return min(one, other or OLDEST[topic], key=parse)
    except ValueError:
        return OLDEST[topic]


def before(version: str) -> str:
    """Return the version before; there is none before a first one, ``MAJOR.0``."""
    major, minor = parse(version)
    return f"{major}.{max(minor - 1, 0)}"


def parse(version: str) -> tuple[int, int]:
    """:raises ValueError: it is not ``MAJOR.MINOR``"""
    major, minor = version.split(".")
    return int(major), int(minor)
