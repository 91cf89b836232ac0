# SPDX-License-Identifier: Apache-2.0
"""A pool state: one pool in the form that cinder's filters and weighers read.

The domain of volumes makes one for each pool on which such a plugin is called.
"""

from __future__ import annotations

import datetime
import math
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from fleet.json_codec import JSONMapping, JSONObject
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.table import Key
from scheduler.volumes.domain import space
from scheduler.volumes.domain.capabilities import Report

#: Attributes and what they are on a pool of which nothing is known (cinder's initial values).
DEFAULTS: dict[str, object] = {
    "volume_backend_name": None,
    "vendor_name": None,
    "driver_version": 0,
    "storage_protocol": None,
    "QoS_support": False,
    "multiattach": False,
    "filter_function": None,
    "goodness_function": 0,
    "total_capacity_gb": 0,
    "free_capacity_gb": None,
    "allocated_capacity_gb": 0,
    "provisioned_capacity_gb": 0,
    "reserved_percentage": 0,
    "max_over_subscription_ratio": 1.0,
    "thin_provisioning_support": False,
    "thick_provisioning_support": False,
    "updated": None,
}
#: Those that are capabilities, and nothing else.
_REPORTED = tuple(DEFAULTS)[:8] + ("thick_provisioning_support",)


def name_of(key: Key) -> str:
    """Return the name of a pool, ``machine@backend#pool``."""
    return f"{key[0]}#{key[1]}"


def key_of(name: str) -> Key:
    """Return the key of a pool by its name; the pool is empty if the name has none."""
    host, _mark, pool = name.partition("#")
    return host, pool


class PoolState:
    """Cinder's attribute names and units. Built by hand in a plugin's tests: ``PoolState("m@lvm#p", total_capacity_gb=5)``.

    What a plugin writes into it is forgotten after the request.
    """

    cluster_name = None

    def __init__(self, host: str, **attributes: Any) -> None:
        self.host = host
        self._limits: dict[str, object] = {}
        self.capabilities: Mapping[str, object] = {}
        self.service: Mapping[str, object] = {}
        vars(self).update({**DEFAULTS, **attributes})

    @property
    def limits(self) -> JSONObject:
        """Limits of the claim that filters have set. Built-in filters set none."""
        return self._limits

    @property
    def backend_id(self) -> str:
        return self.host

    @property
    def pool_name(self) -> str:
        return key_of(self.host)[1]

    nodename = pool_name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"PoolState({self.host}, free {self.free_capacity_gb} of {self.total_capacity_gb} GiB)"


class RowState(PoolState):
    """A pool state over one row of the candidates. Attributes are read from the columns on access."""

    def __init__(self, source: Candidates, row: int) -> None:
        self.row, self.source = row, source
        self.host = name_of(source.key(row))

    @property
    def limits(self) -> JSONObject:
        return self.source.limits.of(self.row)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.source.attribute(self.row, name)


def state_of(pools: Candidates, row: int) -> Any:
    return RowState(pools, row)


def reported(pools: Candidates, row: int, name: str) -> Any:
    """Return a capability as the pool reports it; None if it does not."""
    kind = pools.shared(row, "kind").values
    return kind[name] if name in kind else (pools.object(row, "own") or {}).get(name)


def _report(pools: Candidates, row: int) -> Report:
    return Report(pools.shared(row, "kind"), pools.object(row, "own") or {})


def _capabilities(pools: Candidates, row: int) -> JSONMapping:
    return types.MappingProxyType(_report(pools, row).whole)


def _service(pools: Candidates, row: int) -> JSONMapping:
    host = pools.key(row)[0]
    known = {
        "host": host,
        "binary": "fleet-volume",
        "topic": "volume",
        "availability_zone": pools.shared(row, "availability_zone") or None,
        "disabled": pools.value(row, "disabled"),
        "disabled_reason": pools.disabled_reason(row),
        "updated_at": _time(pools.value(row, "last_seen_up")),
    }
    return types.MappingProxyType(known)


def _updated(pools: Candidates, row: int) -> datetime.datetime | None:
    return _time(pools.value(row, "updated"))


def _time(seconds: float) -> datetime.datetime | None:
    """Return naive UTC, as cinder does; None for 0, which means never."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None) if seconds else None


def _capacity(name: str) -> Callable[[Candidates, int], Any]:
    def view(pools: Candidates, row: int) -> Any:
        """Return GiB, or the word that the pool reports."""
        number = pools.value(row, name)
        return number if math.isfinite(number) else _report(pools, row).kind.values.get(name, "unknown")

    return view


def _ratio(pools: Candidates, row: int) -> float:
    return float(space.ratios(pools.subset(numpy.array([row])))[0])


def _reported(name: str) -> Callable[[Candidates, int], Any]:
    def view(pools: Candidates, row: int) -> Any:
        return _report(pools, row).whole.get(name, DEFAULTS[name])

    return view


def _thin(pools: Candidates, row: int) -> bool:
    return bool(pools.value(row, "thin"))


def _backend_id(pools: Candidates, row: int) -> str:
    return name_of(pools.key(row))


VIEWS: Mapping[str, Callable[[Candidates, int], object]] = {
    "capabilities": _capabilities,
    "service": _service,
    "updated": _updated,
    "total_capacity_gb": _capacity("total_capacity_gb"),
    "free_capacity_gb": _capacity("free_capacity_gb"),
    "max_over_subscription_ratio": _ratio,
    "thin_provisioning_support": _thin,
    "backend_id": _backend_id,
    **{name: _reported(name) for name in _REPORTED},
}
#: Attributes that every pool state has, however it was made.
ATTRIBUTES = frozenset(
    [*DEFAULTS, "host", "nodename", "pool_name", "backend_id", "cluster_name", "capabilities", "service"]
)
