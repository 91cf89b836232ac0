# SPDX-License-Identifier: Apache-2.0
"""Two cells with brokers of their own below a conductor of their own, on MariaDB: servers in both, moves, and the switch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping

import sqlalchemy as sa

from tests.nova.calls import eventually
from tests.nova.cloud import Cloud
from tests.nova.databases import READER
from tests.nova.layout import TWO_CELLS

_HOST = "OS-EXT-SRV-ATTR:host"
#: Pause between two boots of the load, in seconds.
_PAUSE_S = 0.5
#: Servers of the load that are there at a time.
_KEPT = 20


def _act(cloud: Cloud, number: str, body: dict[str, object]) -> None:
    cloud.api("POST", f"/servers/{number}/action", body)


def _rows(cloud: Cloud, database: str) -> dict[str, str]:
    """Server → its host, of the rows of one cell."""
    engine = sa.create_engine(cloud.url(database), poolclass=sa.NullPool)
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT uuid, host FROM instances WHERE deleted = 0 ORDER BY uuid"))
        return {uuid: host for uuid, host in found}


def test_a_group_over_both_cells(two_cells: Cloud) -> None:
    """Four servers that are apart are on the four hosts, each in the database of its host's cell. A fifth finds no host."""
    cloud = two_cells
    group = cloud.api("POST", "/os-server-groups", {"server_group": {"name": "apart", "policy": "anti-affinity"}})
    hints = {"group": group["server_group"]["id"]}
    cloud.boot("member", "small", hints, min_count=4, max_count=4)
    eventually(lambda: ["ACTIVE"] * 4 == [each["status"] for each in cloud.servers()])
    assert sorted(TWO_CELLS.hosts) == sorted(each[_HOST] for each in cloud.servers())
    for cell in TWO_CELLS.cells:
        assert sorted(cell.hosts) == sorted(_rows(cloud, cell.database).values())
    fifth = cloud.boot("fifth", "small", hints)
    assert "ERROR" == cloud.settled(fifth)["status"]
    assert "ServerGroupAntiAffinityFilter" in cloud.fault(fifth)
    _require_equal(cloud)


def test_moves_stay_in_their_cell(two_cells: Cloud) -> None:
    """A resize of a server of the second cell, and a live migration in the first: each has one other host there."""
    cloud = two_cells
    number = cloud.boot("grows", "small", host="cmp3")
    lives = cloud.boot("lives", "small", host="cmp1")
    assert ["ACTIVE"] * 2 == [cloud.settled(each)["status"] for each in (number, lives)]
    _act(cloud, number, {"resize": {"flavorRef": "medium"}})
    _act(cloud, lives, {"os-migrateLive": {"host": None, "block_migration": "auto"}})
    resized = cloud.settled(number)
    assert ("VERIFY_RESIZE", "cmp4") == (resized["status"], resized[_HOST])
    _act(cloud, number, {"confirmResize": None})
    eventually(lambda: "ACTIVE" == cloud.server(number)["status"])
    eventually(lambda: "cmp2" == cloud.server(lives)[_HOST])
    assert "ACTIVE" == cloud.settled(lives)["status"]
    _require_equal(cloud)


def test_a_cell_that_cannot_be_read(two_cells: Cloud) -> None:
    """Its hosts stay as they were known for a while: servers find places in both cells meanwhile."""
    cloud = two_cells
    privilege = f"SELECT ON {TWO_CELLS.cells[1].database}.instances"
    cloud.databases.execute(f"REVOKE {privilege} FROM '{READER}'@'%'", "mysql")
    try:
        eventually(lambda: "Cell cell2 cannot be read" in cloud.log("fleet-scheduler"))
        numbers = [cloud.boot(f"meanwhile-{host}", "small", host=host) for host in ("cmp1", "cmp3")]
        assert [("ACTIVE", "cmp1"), ("ACTIVE", "cmp3")] == [
            (found["status"], found[_HOST]) for found in map(cloud.settled, numbers)
        ]
    finally:
        cloud.databases.execute(f"GRANT {privilege} TO '{READER}'@'%'", "mysql")
    eventually(lambda: "Cell cell2 can be read again" in cloud.log("fleet-scheduler"))
    assert "its 2 hosts are left out" not in cloud.log("fleet-scheduler")
    _require_equal(cloud)


class _Load:
    """Boots of tiny servers without an end, by a thread of its own. Older ones are deleted meanwhile."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.numbers: list[str] = []
        #: Server → its status and fault when it was settled.
        self.ended: dict[str, tuple[str, str]] = {}
        self._stop = threading.Event()
        self._booting = threading.Lock()
        self._thread = threading.Thread(target=self._boot)

    def __enter__(self) -> _Load:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stop.set()
        self._thread.join()
        for number in self.numbers:
            self._end(number)

    def during(self, work: Callable[[], None]) -> None:
        """Do some work, and go on when a few servers were booted after it."""
        work()
        enough = len(self.numbers) + 4
        eventually(lambda: len(self.numbers) >= enough)

    def between(self, work: Callable[[], None]) -> None:
        """Do some work while no request is on its way."""
        with self._booting:
            for number in self.numbers[-_KEPT:]:
                self._end(number)
            work()

    def _boot(self) -> None:
        while not self._stop.wait(_PAUSE_S):
            with self._booting:
                self.numbers.append(self._cloud.boot(f"loaded-{len(self.numbers)}", "tiny"))
            if len(self.numbers) > _KEPT:
                number = self.numbers[-_KEPT]
                self._end(number)
                self._cloud.api("DELETE", f"/servers/{number}")

    def _end(self, number: str) -> None:
        if number not in self.ended:
            self.ended[number] = self._cloud.settled(number)["status"], self._cloud.fault(number)


def test_the_switch_and_the_way_back_under_load(two_cells: Cloud) -> None:
    """As the manual orders it: the new scheduler is ready before the old one is stopped. Every boot succeeds.

    nova-scheduler takes requests for seconds after its SIGTERM and never answers them, so it is stopped between two boots.
    """
    cloud = two_cells
    begun = len(cloud.log("fleet-scheduler"))
    with _Load(cloud) as load:
        load.during(lambda: None)
        load.during(cloud.start_nova_scheduler)
        load.during(lambda: cloud.kill("fleet-scheduler", signal.SIGTERM))
        of_nova_alone = list(load.numbers[-3:])
        load.during(cloud.start_fleet_scheduler)
        load.during(lambda: load.between(lambda: cloud.kill("nova-scheduler", signal.SIGTERM)))
    failed = {number: ended for number, ended in load.ended.items() if ended != ("ACTIVE", "")}
    assert not failed, _told(cloud, failed)
    said = cloud.log("fleet-scheduler")[begun:]
    by_fleet = {number for number in load.numbers if f"Placed 1 instance(s), first {number}" in said}
    assert set(load.numbers[:3]) | set(load.numbers[-3:]) <= by_fleet
    assert by_fleet.isdisjoint(of_nova_alone)
    _require_equal(cloud)


def _told(cloud: Cloud, failed: Mapping[str, tuple[str, str]]) -> str:
    """Return how these servers ended, all lines of logs about them, and when each scheduler stopped."""
    lines = [f"{number}: {status}, {fault}" for number, (status, fault) in failed.items()]
    for path in sorted(cloud.directory.glob("*.log")):
        log = path.read_text(errors="replace").splitlines()
        lines += [f"{path.name}: {line}" for line in log if any(number in line for number in failed)]
        if "scheduler" in path.name:
            lines += [
                f"{path.name}: {line}" for line in log if "SIGTERM" in line or "Stopping" in line or "topped" in line
            ]
    return "\n".join(lines)


def _require_equal(cloud: Cloud) -> None:
    """Placement's allocations are those of the servers on their hosts."""
    eventually(lambda: {name: set(held) for name, held in cloud.allocations().items()} == cloud.placed(), 60)
