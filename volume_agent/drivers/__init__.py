# SPDX-License-Identifier: Apache-2.0
"""Drivers that create volumes. ``base`` is the interface; ``directory`` keeps them as files, ``lvm`` as logical volumes,
``fake`` as records in memory.

``volume_files`` has the names and sizes of the files of ``directory``, and ``pool_directory`` holds its directories.
``volume_group`` and ``blocks`` are what ``lvm`` needs of lvm2, and of block devices.
"""

from __future__ import annotations

from fleet.agent import loading
from volume_agent.drivers.base import VolumeDriver

BUILT_IN = {
    "directory": "volume_agent.drivers.directory.DirectoryDriver",
    "lvm": "volume_agent.drivers.lvm.LvmDriver",
    "fake": "volume_agent.drivers.fake.FakeDriver",
}


def driver_class(name: str) -> type[VolumeDriver]:
    """:raises errors.ClassNotFound:"""
    return loading.find_class("volume_driver", name, VolumeDriver, BUILT_IN, "fleet.volume.drivers")  # type: ignore[type-abstract]
