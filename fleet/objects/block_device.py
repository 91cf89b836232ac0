# SPDX-License-Identifier: Apache-2.0
"""A volume that an instance has from its first boot on. :mod:`fleet.objects.build_request` has a list of them."""

from __future__ import annotations

import dataclasses

from fleet.objects import fields
from fleet.objects.attachment import Device


@dataclasses.dataclass(frozen=True)
class BlockDevice:
    """:param volume_id: uuid or name of a volume that is available
    :param device_name: of the disk. None: the first that is free
    :param delete_on_termination: must be false
    """

    volume_id: fields.Name
    device_name: Device | None = None
    delete_on_termination: fields.Flag = False
