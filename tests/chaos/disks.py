# SPDX-License-Identifier: Apache-2.0
"""A storage backend of a world: an agent over real directories, orders about its volumes, and whether all agree."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import units, uuidutils

from fleet import errors
from fleet.clock import utcnow
from tests.chaos.world import NO_ANSWER, ChaosWorld
from tests.invariants import storage

HOST = "disks@files"
_CONFIG = """\
[DEFAULT]
host = disks
enabled_backends = files
volume_state_path = {directory}/state
backend_stats_polling_interval = 3
[files]
volume_driver = {driver}
directory_pools = {pools}
{more}
"""


class Disks:
    """``directory`` has a directory for each pool."""

    def __init__(self, world: ChaosWorld, pools: Sequence[str]) -> None:
        self.world = world
        self.pools = pools
        self.directory = world.directory / "disks"
        for pool in pools:
            (self.directory / pool).mkdir(parents=True, exist_ok=True)

    def start(self, driver: str = "directory", more: str = "", command: Sequence[str] = ()) -> None:
        """:param command: is run in the place of ``fleet-volume``, with its arguments"""
        pools = ",".join(f"{pool}:{self.directory}/{pool}" for pool in self.pools)
        config = self.directory / "volume.conf"
        config.write_text(_CONFIG.format(directory=self.directory, pools=pools, driver=driver, more=more))
        arguments = ("--config-file", str(config), *self.world.signing("disks"))
        began = utcnow()
        self.world.start("disks", "fleet-volume", *arguments, command=command)
        # The rows show "up" for a while after the agent of an earlier scenario has ended.
        self.world.until(lambda: self.world.has_heard(HOST, began) and self.is_up(), timeout_s=60)

    def is_up(self) -> bool:
        return {name: each["state"] for name, each in self.reported().items()} == {
            f"{HOST}#{pool}": "up" for pool in self.pools
        }

    def reported(self) -> dict[str, dict[str, Any]]:
        """Pools as operators see them, by name."""
        return {each["name"]: each for each in self.world.trio.operator("list_pools")}

    # Orders

    def order(self, method: str, **arguments: Any) -> Any:
        """A call that is made once; its outcome may be unknown."""
        with contextlib.suppress(*NO_ANSWER, errors.FleetError):
            return self.world.trio.operator_at_once(method, **arguments)

    def create(self, count: int, size: int = 1, **request: Any) -> list[Any]:
        self.order("create_volumes", request={"name": self.world.name, "size": size, "count": count, **request})
        return self.volumes()

    def made(self, count: int, **request: Any) -> list[Any]:
        """Volumes that are available. :raises AssertionError:"""
        self.world.until(lambda: len(self.create(count, **request)) >= count)
        self.settle()
        return self.with_status("available")

    def use(self) -> None:
        """Some of everything that users order."""
        for number, row in enumerate(self.with_status("available")):
            if number % 3 == 0:
                self.order("extend_volume", name=row["uuid"], size=row["size_gb"] + 1)
            elif number % 3 == 1:
                self.order("delete_volume", name=row["uuid"])
            else:
                self.create(1, source=row["uuid"], size=row["size_gb"])
        self.create(3)

    # What is there

    def volumes(self) -> list[Any]:
        """With their snapshots."""
        return [row for row in self.world.ledger().volumes if not row["deleted"]]

    def snapshots(self) -> list[Any]:
        return [row for row in self.volumes() if row["snapshot_of"]]

    def with_status(self, status: str) -> list[Any]:
        return [row for row in self.volumes() if row["status"] == status]

    def is_settled(self) -> bool:
        return not any(row["step"] for row in self.volumes())

    def settle(self) -> None:
        self.world.until(self.is_settled, timeout_s=90)

    def files(self, pool: str) -> dict[str, int]:
        """GiB by uuid. What is no volume has its whole name."""
        found = (path for path in (self.directory / pool).iterdir() if not path.name.startswith(".pool-"))
        sizes = {path.name: path.stat().st_size // units.Gi for path in found}
        return {name.removeprefix("volume-").removeprefix("snapshot-"): size for name, size in sizes.items()}

    def file_of_a_user(self, pool: str) -> pathlib.Path:
        """A new file of one GiB on a pool."""
        path = self.directory / pool / f"mine-{uuidutils.generate_uuid()}"
        path.touch()
        os.truncate(path, units.Gi)
        return path

    def remove_files_of_users(self) -> None:
        """Those that are no volumes, or no longer."""
        for kind in ("mine", "unmanaged"):
            for path in self.directory.glob(f"*/{kind}-*"):
                path.unlink()

    def agree(self) -> None:
        """:raises AssertionError: ledger, agent and files do not agree within some reports"""
        wrong: list[str] = []

        def agreed() -> bool:
            ledger = self.world.ledger()
            there: Mapping[str, Mapping[str, int]] = {f"{HOST}#{each}": self.files(each) for each in self.pools}
            wrong[:] = [
                *storage.pools_count_their_volumes(ledger),
                *storage.volumes_are_where_the_ledger_says(ledger, there),
            ]
            return not wrong

        try:
            self.world.until(agreed, timeout_s=20)
        except AssertionError:
            raise AssertionError(json.dumps(wrong)) from None

    def end(self) -> None:
        """Everything settles and agrees; then all volumes are deleted, and nothing is left."""
        self.settle()
        self.agree()
        for row in self.snapshots():
            self.order("delete_snapshot", name=row["uuid"])
        self.world.until(lambda: not self.snapshots(), timeout_s=60)
        for row in self.volumes():
            self.order("delete_volume", name=row["uuid"])
        self.world.until(lambda: not self.volumes(), timeout_s=60)
        self.agree()

    def part_of_copy(self) -> list[pathlib.Path]:
        """Copies that are being made."""
        return list(self.directory.glob("*/.part-*"))
