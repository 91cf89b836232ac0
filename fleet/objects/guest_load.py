# SPDX-License-Identifier: Apache-2.0
"""The measured load of one guest, which its host reports. Balancing reads it."""

from __future__ import annotations

import dataclasses

from fleet.objects import fields


@dataclasses.dataclass(frozen=True)
class GuestLoad:
    """
    :param cores: processors that the guest kept busy since the measurement before
    :param memory_mb: that it uses; None if its host cannot tell
    """

    cores: fields.Finite = 0.0
    memory_mb: fields.Finite | None = None
