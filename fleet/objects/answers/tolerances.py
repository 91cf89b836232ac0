# SPDX-License-Identifier: Apache-2.0
"""Answers about promises to survive a loss (``fleet.objects.tolerance``).

:mod:`fleet.rpc.clients.operator.hosts` parses the answers of conductors into them.
"""

from __future__ import annotations

from typing_extensions import TypedDict


class ToleranceView(TypedDict):
    """The promise of a scope."""

    kind: str
    name: str
    number: int
    label: str | None
    policy: str
