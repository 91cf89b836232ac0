# SPDX-License-Identifier: Apache-2.0
"""Finds out whether traffic to a host stays on this machine.

The checks on encryption to broker and database ask it.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str | None) -> bool:
    """Return True if traffic to ``host`` stays on this machine. No host means a Unix socket."""
    if not host or host == "localhost" or host.startswith("/"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
