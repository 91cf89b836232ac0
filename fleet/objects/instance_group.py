# SPDX-License-Identifier: Apache-2.0
"""Policies of a server group: its instances should share a host, or should not. Requests to schedulers contain them."""

from __future__ import annotations

from typing import Literal

AFFINITY = "affinity"
ANTI_AFFINITY = "anti-affinity"
#: Of a group that has rules over labels only (``fleet.objects.group_rule``).
NONE = "none"
Policy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", "none"]
