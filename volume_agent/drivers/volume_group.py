# SPDX-License-Identifier: Apache-2.0
"""An LVM volume group, through the programs of lvm2. :mod:`volume_agent.drivers.lvm` calls it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

from fleet.agent import commands
from fleet.json_codec import JSONObject

_FIELDS = "lv_name,lv_size,pool_lv,data_percent,lv_tags,lv_attr"
_REPORT = ("--reportformat", "json", "--units", "b", "--nosuffix", "-o")


@dataclasses.dataclass(frozen=True)
class LogicalVolume:
    """``size`` in bytes. ``pool`` is its thin pool, or empty. ``data_percent`` is the written part of a thin pool, or
    of a thin volume that is active.

    ``attributes`` are those of ``lvs``: the first letter is the kind of the volume, the sixth "o" if it is open, the eighth
    "z" if the blocks of a thin pool are zeroed before they are used.
    """

    name: str
    size: int
    pool: str = ""
    data_percent: float = 0.0
    tags: tuple[str, ...] = ()
    attributes: str = "-wi-a-----"

    @classmethod
    def of(cls, row: Mapping[str, str]) -> LogicalVolume:
        tags = tuple(each for each in row["lv_tags"].split(",") if each)
        percent = float(row["data_percent"] or 0)
        return cls(row["lv_name"], int(row["lv_size"]), row["pool_lv"], percent, tags, row["lv_attr"])

    @property
    def kind(self) -> str:
        return self.attributes[:1]

    @property
    def is_open(self) -> bool:
        return self.attributes[5:6] == "o"

    @property
    def zeroes(self) -> bool:
        return self.attributes[7:8] == "z"


class VolumeGroup:
    """All methods raise OSError. ``name`` is the group's."""

    def __init__(self, name: str, options: Sequence[str] = ()) -> None:
        """:param options: of each program, for tests without a device mapper"""
        self.name = name
        self._options = options

    def capacity(self) -> tuple[int, int]:
        """Return bytes in total, and free ones."""
        (row,) = self._report("vgs", "vg", "vg_size,vg_free")
        return int(row["vg_size"]), int(row["vg_free"])

    def volumes(self) -> list[LogicalVolume]:
        return [LogicalVolume.of(row) for row in self._report("lvs", "lv", _FIELDS)]

    def _report(self, program: str, what: str, fields: str) -> list[JSONObject]:
        printed = self._run(program, *_REPORT, fields, self.name)
        found: list[dict[str, object]] = json.loads(printed)["report"][0][what]
        return found

    def device(self, name: str) -> pathlib.Path:
        return pathlib.Path("/dev", self.name, name)

    def create(self, name: str, size: int) -> None:
        """Create a logical volume. It contains the data that were stored there before."""
        self._run("lvcreate", "--yes", "--wipesignatures", "n", "--zero", "n", *self._named(name, size), self.name)

    def create_thin(self, name: str, size: int, pool: str) -> None:
        thin = ("--type", "thin", "--virtualsize", f"{size}b", "--thinpool", pool)
        self._run("lvcreate", "--yes", "--name", name, *thin, self.name)

    def snapshot(self, name: str, source: str) -> None:
        """Make a snapshot of a thin volume. It is active, like its source."""
        self._run("lvcreate", "--snapshot", "--setactivationskip", "n", "--name", name, f"{self.name}/{source}")

    def extend(self, name: str, size: int) -> None:
        self._run("lvextend", "--size", f"{size}b", f"{self.name}/{name}")

    def reduce(self, name: str, size: int) -> None:
        """Do nothing if it is no larger than ``size`` bytes."""
        if any(each.name == name and each.size > size for each in self.volumes()):
            self._run("lvreduce", "--yes", "--force", "--size", f"{size}b", f"{self.name}/{name}")

    def rename(self, name: str, to: str) -> None:
        self._run("lvrename", self.name, name, to)

    def remove(self, name: str) -> None:
        self._run("lvremove", "--yes", f"{self.name}/{name}")

    def tag(self, name: str, tag: str) -> None:
        self._run("lvchange", "--addtag", tag, f"{self.name}/{name}")

    def untag(self, name: str, tag: str) -> None:
        self._run("lvchange", "--deltag", tag, f"{self.name}/{name}")

    @staticmethod
    def _named(name: str, size: int) -> tuple[str, ...]:
        return "--name", name, "--size", f"{size}b"

    def _run(self, program: str, *arguments: str) -> str:
        return commands.run(program, *self._options, *arguments, timeout_s=commands.QUICK_S)
