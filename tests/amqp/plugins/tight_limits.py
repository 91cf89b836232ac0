# SPDX-License-Identifier: Apache-2.0
"""A filter that promises more than it lets a host take, so that the host's claim must refuse."""

from __future__ import annotations

from typing import Any

from scheduler.compute import filters


class TightLimitsFilter(filters.BaseHostFilter):
    """Hosts named by the hint ``refusing`` pass, with a limit that no claim can keep."""

    def host_passes(self, host_state: Any, filter_properties: dict[str, Any]) -> bool:
        hints = filter_properties.get("scheduler_hints") or {}
        if host_state.host in hints.get("refusing", ()):
            host_state.limits["vcpu"] = 0.0
        return True
