# SPDX-License-Identifier: Apache-2.0
"""Volumes as files, on pools that report whatever a file tells them to."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from volume_agent.drivers.directory import DirectoryDriver


class UnrulyVolumes(DirectoryDriver):
    """``unruly.json``, beside the directories of the pools: by pool, capabilities to report in the place of its own."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._orders = pathlib.Path(next(iter(options.directory_pools.values()))).parent / "unruly.json"

    def stats(self) -> dict[str, Any]:
        orders = json.loads(self._orders.read_text())
        found = super().stats()
        return {**found, "pools": [{**pool, **orders.get(pool["pool_name"], {})} for pool in found["pools"]]}
