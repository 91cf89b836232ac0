# SPDX-License-Identifier: Apache-2.0
"""Volumes, options and backends for tests of the volume agent."""

from __future__ import annotations

import types
from typing import Any

from oslo_utils import uuidutils

from fleet.objects import Volume, VolumeType
from volume_agent.backends.backend import Backend, Policy
from volume_agent.conf import BACKEND_OPTS
from volume_agent.drivers.base import VolumeDriver

HOST = "m1@store"


def options(**given: Any) -> Any:
    """Options of a backend, with their defaults."""
    return types.SimpleNamespace(**{**{each.dest: each.default for each in BACKEND_OPTS}, **given})


def volume(pool: str = "p1", size_gb: int = 1, status: str = "creating", thick: bool = False, **given: Any) -> Volume:
    wanted = VolumeType("t", {"provisioning:type": "thick"}) if thick else None
    known = {"uuid": uuidutils.generate_uuid(), "name": "v", "step": "working", "attempt": 1, "host": HOST, **given}
    return Volume(size_gb=size_gb, status=status, pool=pool, volume_type=wanted, **known)


def backend(driver: VolumeDriver) -> Backend:
    return Backend(HOST, driver, Policy("store", "z1"))


def stored(driver: VolumeDriver) -> dict[str, tuple[str, int]]:
    """Pool and GiB of what is on a backend, by uuid."""
    return {each.uuid: (each.pool, each.size_gb) for each in driver.volumes()}
