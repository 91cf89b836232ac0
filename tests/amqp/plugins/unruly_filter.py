# SPDX-License-Identifier: Apache-2.0
"""A filter that raises, hangs or ends the process if a hint of the request orders it."""

from __future__ import annotations

import os
import time
from typing import Any

from scheduler.compute import filters


class UnrulyFilter(filters.BaseHostFilter):
    """The hint ``unruly``: ``raise``, ``hang SECONDS`` or ``crash``; without it every host passes."""

    def host_passes(self, host_state: Any, filter_properties: dict[str, Any]) -> bool:
        order = str((filter_properties.get("scheduler_hints") or {}).get("unruly", "")).split()
        if order[:1] == ["raise"]:
            raise RuntimeError("as the hint says")
        if order[:1] == ["hang"] and host_state.host == "a1":  # once a request, not once a host
            time.sleep(float(order[1]))
        if order[:1] == ["crash"]:
            os._exit(3)
        return True
