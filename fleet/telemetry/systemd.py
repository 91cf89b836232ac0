# SPDX-License-Identifier: Apache-2.0
"""Notifies systemd of the daemon's state (sd_notify(3)).

Does nothing if systemd did not start the daemon. Called by :mod:`fleet.telemetry.watchdog`.
"""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """:param state: lines such as ``WATCHDOG=1``"""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    # A manager that does not listen is not an error.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto(state.encode(), address)
