# SPDX-License-Identifier: Apache-2.0
"""The measured load of one guest, which its host reports. Balancing reads it."""

from __future__ import annotations

import dataclasses

from fleet.objects import fields


@dataclasses.dataclass(frozen=True)
class GuestLoad:
    """
    :param cores: processors that the guest kept busy since the measurement before
    :param lasting: the mean of that over the last minutes, in which recent ones weigh more; None if it is not known
    :param memory_mb: that it uses; None if its host cannot measure it
    """

    cores: fields.Finite = 0.0
    lasting: fields.Finite | None = None
    memory_mb: fields.Finite | None = None
