# SPDX-License-Identifier: Apache-2.0
"""Quotas: the limits of a project. Called by :mod:`fleet.db.catalog.quotas` and modules of conductors and of fleet-api."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic

from fleet.objects import fields

UNLIMITED = -1
#: The largest number of a resource, or UNLIMITED.
Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=UNLIMITED, le=fields.INT32_MAX)]
Resource = Literal["instances", "cores", "ram", "local_gb", "server_groups", "volumes", "gigabytes"]
#: Limits that are set for a project; None stands for the default.
Limits = Mapping[str, int | None]


@dataclasses.dataclass(frozen=True)
class Quota:
    """``ram`` in MiB, ``gigabytes`` and ``local_gb`` in GiB. The names are those of nova and cinder.

    nova has no quota of local disk: ``local_gb`` is fleet's own (root, ephemeral and swap). ``gigabytes`` are of volumes.
    """

    instances: int = UNLIMITED
    cores: int = UNLIMITED
    ram: int = UNLIMITED
    local_gb: int = UNLIMITED
    server_groups: int = UNLIMITED
    volumes: int = UNLIMITED
    gigabytes: int = UNLIMITED

    def with_own(self, own: Limits) -> Quota:
        """Return these defaults with the limits that a project has of its own."""
        return dataclasses.replace(self, **{name: limit for name, limit in own.items() if limit is not None})

    def limits_any(self, names: tuple[str, ...]) -> bool:
        return any(getattr(self, name) != UNLIMITED for name in names)

    def to_wire(self) -> dict[str, int]:
        return dataclasses.asdict(self)


NO_LIMITS = Quota()
RESOURCES: tuple[str, ...] = tuple(field.name for field in dataclasses.fields(Quota))
