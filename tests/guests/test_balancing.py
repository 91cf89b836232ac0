# SPDX-License-Identifier: Apache-2.0
"""Real guests under load: the loop moves a busy one to the other host, and a drain moves the rest. None boots again."""

from __future__ import annotations

import base64
import pathlib

from fleet_trial.private_servers import Libvirt
from tests.amqp.daemons import eventually
from tests.guests.machine import BOOT_S, lines
from tests.guests.test_moves import TwoRealHosts, metals

#: Whoever looks sees the load of some seconds: a hot host is relieved at once.
SETTINGS = (
    "[balance]\ninterval = 5\nhold_time = 0\nthreshold = 10\nleast_load = 10\nleast_cpu_load = 10\nmost_moves = 1\n"
)
FLAVOR = {"vcpus": 1, "memory_mb": 128, "root_gb": 1}


def boot(fleet: TwoRealHosts, name: str, orders: str) -> str:
    """Return the uuid of a guest on metal1."""
    data = base64.b64encode(orders.encode()).decode()
    more = {"user_data": data} if orders else {}
    request = {"name": name, "flavor": FLAVOR, "image": {"id": fleet.image}, "availability_zone": "nova:metal1"}
    return fleet.trio.boot(**request, **more)[0]


def host_of(fleet: TwoRealHosts, uuid: str) -> str:
    return str(fleet.trio.show(uuid)["instance"]["host"])


def beats(fleet: TwoRealHosts, uuid: str, host: str) -> list[int]:
    """The seconds that a guest has counted on this host."""
    path = fleet.directory(host) / uuid / "console.log"
    return [int(number) for word, number in lines(path) if word == "beat"]


def suggested(fleet: TwoRealHosts) -> str | None:
    """Return the uuid of the guest that would move now."""
    moves = fleet.trio.operator("suggest_balance", aggregate="metals")["moves"]
    return moves[0]["instance_uuid"] if moves else None


def test_busy_guests_are_spread_and_a_host_is_drained_without_a_boot(
    rabbitmq_url: str, postgresql_url: str, libvirtd: Libvirt, other_libvirtd: Libvirt, image: pathlib.Path
) -> None:
    """Of two busy guests beside an idle one on a host, one of the busy ones goes to the idle host."""
    servers = {"metal1": libvirtd, "metal2": other_libvirtd}
    monitors = "compute_monitors = guests\n"
    with metals(rabbitmq_url, postgresql_url, servers, image, monitors, SETTINGS) as fleet:
        busy = [boot(fleet, name, "spin") for name in ("busy-1", "busy-2")]
        idle = boot(fleet, "idle", "")
        guests = [*busy, idle]
        fleet.trio.wait_for(guests, "active")
        for uuid in guests:
            fleet.booted("metal1", uuid)
        operator = fleet.trio.operator
        operator("create_aggregate", name="metals", metadata={})
        for host in servers:
            operator("add_aggregate_host", name="metals", host=host)
        # A guest that has just booted is busy, too.
        eventually(lambda: suggested(fleet) in busy, timeout_s=BOOT_S)
        operator("set_aggregate_metadata", name="metals", metadata={"balance": "auto"})
        eventually(lambda: [each["status"] for each in operator("list_balance_rounds")] == ["done"], timeout_s=BOOT_S)
        (found,) = operator("list_balance_rounds")
        (move,) = found["moves"]
        moved = move["instance_uuid"]
        assert (True, "metal2", "done") == (moved in busy, move["destination"], move["status"])
        there = {uuid: "metal2" if uuid == moved else "metal1" for uuid in guests}
        assert there == {uuid: host_of(fleet, uuid) for uuid in guests}

        operator("set_aggregate_metadata", name="metals", metadata={"balance": None})
        drained = fleet.trio.cli("host", "drain", "metal1", "--move", "--timeout", "240")
        assert 0 == drained.returncode, drained.stdout + drained.stderr
        assert "2 instances to move live" in drained.stdout
        for uuid in guests:
            seen = len(beats(fleet, uuid, "metal2"))
            eventually(lambda uuid=uuid, seen=seen: len(beats(fleet, uuid, "metal2")) > seen, timeout_s=BOOT_S)
            assert ("up", "") not in [*lines(fleet.directory("metal2") / uuid / "console.log")]
        assert ([], 3) == (list(fleet.directory("metal1").iterdir()), len(other_libvirtd.domains()))
        fleet.trio.terminate(guests)
        eventually(lambda: not fleet.left())
