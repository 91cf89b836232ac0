# SPDX-License-Identifier: Apache-2.0
"""Pools must meet a JSON query of the user. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from typing import ClassVar

from scheduler.compute.filters import json
from scheduler.engine import plugins
from scheduler.volumes.domain import one_pool
from scheduler.volumes.filters.base import ColumnFilter


class JsonFilter(ColumnFilter, json.JsonFilter):
    """With the hint ``query``, pools pass that meet the query, such as ``[">=", "$free_capacity_gb", 100]``."""

    one_host: ClassVar[plugins.OneHost] = one_pool
    mask = json.JsonFilter.mask
