# SPDX-License-Identifier: Apache-2.0
"""Compute the equations that pools report, ``filter_function`` and ``goodness_function``, for a request.

:mod:`scheduler.volumes.filters.driver` and :mod:`scheduler.volumes.weights.goodness` ask for them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from fleet.json_codec import JSONMapping, JSONObject
from fleet.telemetry import rate_limited_log
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain import equation
from scheduler.volumes.domain.pool_state import name_of, reported
from scheduler.volumes.domain.request import VolumeRequest

LOG = logging.getLogger(__name__)
_FAILURES = rate_limited_log.RateLimit()
#: Attributes of a pool that an equation finds as ``stats.NAME``.
STATS = (
    "host",
    "cluster_name",
    "backend_id",
    "volume_backend_name",
    "vendor_name",
    "driver_version",
    "storage_protocol",
    "QoS_support",
    "total_capacity_gb",
    "allocated_capacity_gb",
    "free_capacity_gb",
    "reserved_percentage",
    "updated",
)
_PROTOCOL = "storage_protocol"


def _qos(request: VolumeRequest) -> JSONMapping | None:
    """Return what ``qos.`` names: cinder takes it of the volume's properties. The type's are used where these have none."""
    found = request.properties.qos_specs
    found = request.volume_type.qos_specs if found is None else found
    return found if isinstance(found, Mapping) else None


class PoolEquations:
    """The equations of one capability, ``key``, over the pools of one request.

    :param as_cinder: compute as cinder's parser does, see :mod:`scheduler.volumes.domain.equation`
    """

    def __init__(self, key: str, request: VolumeRequest, as_cinder: bool = False) -> None:
        self._key = key
        self._as_cinder = as_cinder
        properties, type_ = request.request_spec.get("volume_properties"), request.volume_type
        self._of_request: equation.Variables = {
            "extra": type_.extra_specs,
            "volume": properties if isinstance(properties, Mapping) else {"size": request.properties.size},
            "qos": _qos(request),
        }

    def each(
        self, pools: Candidates, judge: Callable[[Sequence[Any]], Any], absent: object, failed: object
    ) -> list[Any]:
        """Return for each pool what ``judge`` makes of its values: one, or one for each name of the pool's protocol.

        :param absent: the answer for a pool without an equation
        :param failed: the answer for a pool whose equation cannot be computed, or whose value ``judge`` refuses
        """
        present = zip(pools.rows.tolist(), pools.present().tolist(), strict=True)
        return [self._one(pools, row, judge, absent, failed) if there else absent for row, there in present]

    def _one(
        self, pools: Candidates, row: int, judge: Callable[[Sequence[Any]], Any], absent: object, failed: object
    ) -> Any:
        text = reported(pools, row, self._key)
        if text is None:
            return absent
        try:
            return judge(self.values(pools, row, str(text)))
        except equation.EquationError as wrong:
            left_out = _FAILURES.due(self._key)
            if left_out is not None:
                said = "The %s of pool %s, %r, cannot be used: %s (%d more since the last such line)"
                LOG.warning(said, self._key, name_of(pools.key(row)), str(text)[:80], wrong, left_out)
            return failed

    def values(self, pools: Candidates, row: int, text: str) -> Sequence[Any]:
        """:raises equation.EquationError:"""
        parsed = equation.parse(text, self._as_cinder)
        variables: JSONObject = {**self._of_request, "stats": _Stats(pools.state(row))}
        if any(name.startswith("capabilities.") for name in parsed.names):
            variables["capabilities"] = pools.attribute(row, "capabilities")
        protocol = pools.attribute(row, _PROTOCOL) if _PROTOCOL in text else None
        if not isinstance(protocol, list):
            return [parsed.value(variables)]
        return [parsed.value({**variables, **_with_protocol(variables, name)}) for name in protocol]


class _Stats(JSONMapping):
    """The attributes of a pool that equations may read, each looked up when it is read."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Any:
        if name not in STATS:
            raise KeyError(name)
        return getattr(self._state, name)

    def __iter__(self) -> Iterator[str]:
        return iter(STATS)

    def __len__(self) -> int:
        return len(STATS)


def _with_protocol(variables: JSONMapping, name: str) -> JSONObject:
    """Return the attributes and capabilities of a pool with one name of its protocol in place of all."""
    groups = [group for group in ("stats", "capabilities") if group in variables]
    return {group: collections.ChainMap({_PROTOCOL: name}, variables[group]) for group in groups}
