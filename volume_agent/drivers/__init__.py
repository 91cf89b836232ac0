# SPDX-License-Identifier: Apache-2.0
"""What makes volumes. ``base`` is the interface; ``directory`` keeps them as files, ``fake`` as records in memory.

``image`` reads the images that volumes begin with.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.agent import loading
from volume_agent.drivers.base import VolumeDriver
from volume_agent.drivers.directory import DirectoryDriver
from volume_agent.drivers.fake import FakeDriver

BUILT_IN: Mapping[str, type[VolumeDriver]] = {"directory": DirectoryDriver, "fake": FakeDriver}


def driver_class(name: str) -> type[VolumeDriver]:
    """:raises errors.ClassNotFound:"""
    return loading.find_class("volume_driver", name, VolumeDriver, BUILT_IN, "fleet.volume.drivers")  # type: ignore[type-abstract]
