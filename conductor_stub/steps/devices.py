# SPDX-License-Identifier: Apache-2.0
"""Names of disks: those of the flavor come first, volumes have the others.

Called by modules of :mod:`conductor_stub.attachments` and :mod:`conductor_stub.moves`.
"""

from __future__ import annotations

from collections.abc import Collection

from fleet.objects.attachment import DEVICES


def own(ephemeral_gb: int, swap_mb: int) -> tuple[str, ...]:
    """Names that disks of the flavor have, besides the root disk."""
    return DEVICES[: (ephemeral_gb > 0) + (swap_mb > 0)]


def free(ephemeral_gb: int, swap_mb: int, taken: Collection[str]) -> list[str]:
    """Names that a volume may have."""
    return [name for name in DEVICES if name not in taken and name not in own(ephemeral_gb, swap_mb)]


def plain(name: str) -> str:
    """The name without its directory."""
    return name.removeprefix("/dev/")
