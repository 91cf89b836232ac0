# SPDX-License-Identifier: Apache-2.0
"""Writes data to block devices. :mod:`volume_agent.drivers.lvm` writes images and zeros by it."""

from __future__ import annotations

import os
import pathlib

from fleet.agent import commands


class Blocks:
    """All methods raise OSError, and flush what they have written."""

    def zero(self, device: pathlib.Path, offset: int, length: int) -> None:
        """Write zeros, so that the user of a new volume does not see earlier data."""
        commands.run("blkdiscard", "--zeroout", "--offset", str(offset), "--length", str(length), str(device))
        self.flush(device)

    def copy(self, source: pathlib.Path, to: pathlib.Path, length: int) -> None:
        """Copy at most ``length`` bytes of a device to one that has only zeros."""
        bounded = ("iflag=count_bytes", f"count={length}")
        commands.run("dd", f"if={source}", f"of={to}", "bs=4M", *bounded, "conv=sparse,notrunc,fsync", "status=none")

    def flush(self, device: pathlib.Path) -> None:
        descriptor = os.open(device, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
