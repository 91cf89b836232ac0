# SPDX-License-Identifier: Apache-2.0
"""A decision in cinder's way, by the behaviour of its scheduler: the slow reference of the part ``pools``.

Each request reads the records of all services, applies the last report of each backend to the objects of its pools, calls
each filter for each pool with the request as a dict, and weighs one object for each pool that is left.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Properties = dict[str, Any]


class PoolState:
    """What filters see of a pool."""

    def __init__(self, host: str, pool_name: str) -> None:
        self.host = f"{host}#{pool_name}"
        self.capabilities: dict[str, Any] = {}
        self.service: dict[str, Any] = {}

    def update(self, report: dict[str, Any], service: dict[str, Any]) -> None:
        """A report that is as old as the state is applied again."""
        self.capabilities, self.service = dict(report), dict(service)
        self.total_capacity_gb = report.get("total_capacity_gb", 0)
        self.free_capacity_gb = report.get("free_capacity_gb", 0)
        self.allocated_capacity_gb = report.get("allocated_capacity_gb", 0)
        self.provisioned_capacity_gb = report.get("provisioned_capacity_gb", self.allocated_capacity_gb)
        self.QoS_support = report.get("QoS_support", False)
        self.reserved_percentage = report.get("reserved_percentage", 0)
        self.thin_provisioning_support = report.get("thin_provisioning_support", False)
        self.thick_provisioning_support = report.get("thick_provisioning_support", False)
        self.max_over_subscription_ratio = float(report.get("max_over_subscription_ratio") or 20.0)
        self.multiattach = report.get("multiattach", False)
        self.filter_function = report.get("filter_function")
        self.goodness_function = report.get("goodness_function", 0)


class Scheduler:
    """:param backends: by name, the service and the reports of the pools"""

    def __init__(
        self, backends: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]], now: datetime.datetime
    ) -> None:
        self._backends = backends
        self._now = now
        self._states: dict[str, dict[str, PoolState]] = {}
        self._filters = [_Attempted, _Zone, _Capacity, _Capabilities]

    def decide(self, props: Properties) -> str:
        states: Iterable[PoolState] = list(self._all_states())
        for each in self._filters:
            states = list(each().filter_all(states, props))
        return _best(list(states))

    def _all_states(self) -> Iterator[PoolState]:
        for name, (service, reports) in self._backends.items():
            if service["disabled"] or abs((self._now - service["updated_at"]).total_seconds()) > 60:
                continue
            known = self._states.setdefault(name, {})
            for report in reports:
                filled = {"timestamp": self._now, **report}
                state = known.get(report["pool_name"])
                if state is None:
                    state = known[report["pool_name"]] = PoolState(name, report["pool_name"])
                state.update(filled, service)
                yield state


class _Filter:
    def filter_all(self, states: Iterable[PoolState], props: Properties) -> Iterator[PoolState]:
        for state in states:
            if self._filter_one(state, props):
                yield state

    def _filter_one(self, state: PoolState, props: Properties) -> bool:
        passes = getattr(self, "host_passes", None) or self.backend_passes
        return bool(passes(state, props))

    def backend_passes(self, state: PoolState, props: Properties) -> bool:
        raise NotImplementedError


class _Attempted(_Filter):
    def backend_passes(self, state: PoolState, props: Properties) -> bool:
        return state.host not in props.get("retry", {}).get("backends", [])


class _Zone(_Filter):
    def backend_passes(self, state: PoolState, props: Properties) -> bool:
        zone = props.get("request_spec", {}).get("resource_properties", {}).get("availability_zone")
        return not zone or zone == state.service["availability_zone"]


class _Capacity(_Filter):
    def backend_passes(self, state: PoolState, props: Properties) -> bool:
        if state.free_capacity_gb is None:
            return False
        return _virtual_free(state) >= props.get("size", 0)


class _Capabilities(_Filter):
    def backend_passes(self, state: PoolState, props: Properties) -> bool:
        specs = (props.get("resource_type") or {}).get("extra_specs", {})
        return all(_satisfies(state.capabilities, key, wanted) for key, wanted in specs.items())


def _satisfies(capabilities: dict[str, Any], key: str, wanted: str) -> bool:
    scope = key.split(":")
    if len(scope) > 1 and scope[0] != "capabilities":
        return True
    found: Any = capabilities
    for part in scope[1:] if scope[0] == "capabilities" else scope:
        found = found.get(part) if isinstance(found, dict) else None
    return found is not None and str(found) == wanted


def _virtual_free(state: PoolState) -> float:
    total, free = state.total_capacity_gb, state.free_capacity_gb
    if "infinite" in (total, free) or "unknown" in (total, free):
        return math.inf
    available = total - math.floor(total * state.reserved_percentage / 100)
    if state.thin_provisioning_support:
        return round(available * state.max_over_subscription_ratio - state.provisioned_capacity_gb, 2)
    return round(min(free, available - state.provisioned_capacity_gb), 2)


def _best(states: Sequence[PoolState]) -> str:
    raw = [_virtual_free(state) for state in states]
    low, high = min(raw), max(raw)
    weighed = [(1.0 * (each - low) / ((high - low) or 1), state) for each, state in zip(raw, states, strict=True)]
    return sorted(weighed, key=lambda pair: pair[0], reverse=True)[0][1].host
