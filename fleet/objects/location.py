# SPDX-License-Identifier: Apache-2.0
"""The location of a volume: ``machine@backend#pool``.

Called by modules of :mod:`conductor_stub.volumes`, :mod:`fleet.db.volumes` and :mod:`scheduler.volumes`. Backend and
pool are optional, as in cinder.
"""

from __future__ import annotations

from typing import Literal, overload

from fleet import errors

#: Name of the only pool of a backend that reports no pools.
DEFAULT_POOL = "_pool0"

Level = Literal["host", "backend", "pool"]


def extract_host(location: str | None, level: Level = "backend", default_pool_name: bool = False) -> str | None:
    """Return one part of ``location``: the machine, ``machine@backend``, or the pool.

    :param default_pool_name: return ``DEFAULT_POOL`` for a location without a pool, and not None
    :raises errors.InvalidInput: there is no location
    """
    if location is None:
        raise errors.InvalidInput(field="volume.host", reason="is not set: the volume is not assigned to a host")
    backend, *pools = location.split("#")
    if level == "host":
        return backend.partition("@")[0]
    if level == "backend":
        return backend
    if len(pools) == 1:
        return pools[0]
    return DEFAULT_POOL if default_pool_name else None


@overload
def append_host(host: str, pool: str | None) -> str: ...
@overload
def append_host(host: str | None, pool: str | None) -> str | None: ...
def append_host(host: str | None, pool: str | None) -> str | None:
    """Return ``host#pool``; ``host`` alone if one of them is empty."""
    return f"{host}#{pool}" if host and pool else host


def require_pool(pool: str, field: str) -> None:
    """Refuse a name of a pool that cannot be read out of a location. :raises errors.InvalidInput: naming the field"""
    if "#" in pool:
        reason = f"must not contain #, which is between backend and pool of a location, got {pool!r:.60}"
        raise errors.InvalidInput(field=field, reason=reason)


def hosts_are_equivalent(one: str | None, other: str | None) -> bool:
    """Return True if both locations are on the same backend."""
    if not one or not other:
        return one == other
    return extract_host(one) == extract_host(other)
