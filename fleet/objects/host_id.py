# SPDX-License-Identifier: Apache-2.0
"""A host's name for a project that may not see it (``hostId`` of nova's API): the same for all its instances there.

Called by modules of :mod:`conductor_stub.operators` and :mod:`fleet_api.servers`.
"""

from __future__ import annotations

import hashlib


def of(project: str, host: str | None) -> str:
    """Return 56 hexadecimal digits, other ones for each project; empty without a host."""
    return hashlib.sha224(f"{project}{host}".encode()).hexdigest() if host else ""
