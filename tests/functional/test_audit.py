# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage audit``: a ledger that does not agree with itself is found out, and healed where it needs no decision."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import sqlalchemy as sa

from fleet import errors, move_states
from fleet.clock import seconds, utcnow
from fleet.db.engine.database import Database
from fleet.db.tables import models
from fleet.db.upkeep import audit
from tests.functional.manage import Manage
from tests.functional.test_moves import STEPS, Stage
from tests.worlds.conductor import Conductor

INSTANCES, NODES, SERVICES = models.instances, models.compute_nodes, models.services


@pytest.fixture
def manage(database: Database, tmp_path: pathlib.Path) -> Manage:
    return Manage(database, tmp_path)


@pytest.fixture
def conductor(database: Database) -> Conductor:
    """One instance is active on h1, one has failed, and one waits for its host."""
    conductor = Conductor(database)
    # The audit reads the real clock.
    conductor.clock.now = utcnow()
    conductor.add_host("h1")
    uuid = conductor.place("h1", name="web")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    conductor.scheduler.answers.append(errors.NoValidHost(reason="Full."))
    conductor.create(name="huge")
    conductor.work()
    conductor.place("h1", name="new")
    return conductor


def break_it(database: Database, table: sa.Table, **values: Any) -> None:
    """Change rows directly in the database; ``where_NAME`` chooses the rows."""
    where = [table.c[name[6:]] == value for name, value in values.items() if name.startswith("where_")]
    change = {name: value for name, value in values.items() if not name.startswith("where_")}
    with database.engine.begin() as connection:
        connection.execute(table.update().where(*where).values(**change))


def found(manage: Manage, *argv: str) -> tuple[int, list[tuple[str, str, str, str]]]:
    """Exit status; kind, name of the instance or node, finding, and result."""
    status, printed = manage("audit", "-f", "json", *argv)
    rows = json.loads("\n".join(printed))
    return status, [(row["kind"], row["name"].split(" ")[0], row["found"], row["state"]) for row in rows]


def test_a_ledger_that_agrees(conductor: Conductor, manage: Manage) -> None:
    """Status 0 and no finding, in every state of its instances."""
    assert (0, []) == found(manage)
    assert (0, []) == found(manage, "--heal")


def test_usage_is_summed_afresh(conductor: Conductor, database: Database, manage: Manage) -> None:
    """The audit names node columns that differ from the sum of the instances.

    Healing writes the sum, and schedulers read it.
    """
    break_it(database, NODES, memory_mb_used=7, running_vms=5)
    before = database.read(lambda connection: connection.execute(sa.select(NODES.c.generation)).scalar_one())
    text = "memory_mb_used is 7, but 1024 is held, running_vms is 5, but 1 is held"
    assert (4, [("usage", "h1:h1", text, "left")]) == found(manage)
    assert (3, [("usage", "h1:h1", text, "healed")]) == found(manage, "--heal")
    assert (0, []) == found(manage)
    assert 1024 == conductor.memory_used("h1")
    after = database.read(lambda connection: connection.execute(sa.select(NODES.c.generation)).scalar_one())
    assert after > before


def test_cells_and_devices_are_counted_too(conductor: Conductor, database: Database, manage: Manage) -> None:
    """What is left of a node's devices is compared with what instances hold."""
    pool = {"count": 1, "vendor_id": "8086", "product_id": "10ed", "numa_node": 0}
    break_it(database, NODES, pci_stats=[pool])
    assert (3, [("usage", "h1:h1", "pci_stats differs from what is held", "healed")]) == found(manage, "--heal")
    assert (0, []) == found(manage)


def test_a_lost_fault_is_said_to_be_lost(conductor: Conductor, database: Database, manage: Manage) -> None:
    """An instance in ERROR always has a fault."""
    with database.engine.begin() as connection:
        connection.execute(models.instance_faults.delete())
    expected = ("fault", "huge", "it is in ERROR without a fault")
    assert (4, [(*expected, "left")]) == found(manage)
    assert (3, [(*expected, "healed")]) == found(manage, "--heal")
    (fault,) = conductor.faults("huge")
    assert ("FaultNotRecorded", 500) == (fault["error"], fault["code"])


def test_a_claim_on_no_host_is_dropped(conductor: Conductor, database: Database, manage: Manage) -> None:
    """It would be counted again with the next host."""
    break_it(database, INSTANCES, where_name="new", claimed_memory_mb=4)
    text = "it has a claim but no host"
    assert (3, [("claim", "new", text, "healed")]) == found(manage, "--heal")
    assert (0, []) == found(manage)


DECISIONS = [
    ("no agent", SERVICES, {"deleted": True}, ["host web it is on h1, which has no service"]),
    ("no node", NODES, {"deleted": True}, ["host web it is on h1:h1, which has no node"]),
]


@pytest.mark.parametrize(("what", "table", "values", "expected"), DECISIONS, ids=[case[0] for case in DECISIONS])
def test_what_an_operator_must_decide(
    conductor: Conductor,
    database: Database,
    manage: Manage,
    what: str,
    table: sa.Table,
    values: dict[str, Any],
    expected: list[str],
) -> None:
    """The audit names it and does not change it."""
    break_it(database, table, **values)
    status, rows = found(manage, "--heal")
    assert 4 == status
    assert expected == [" ".join(row[:3]) for row in rows]
    assert {"left"} == {row[3] for row in rows}


def test_steps_that_nobody_sweeps(conductor: Conductor, database: Database, manage: Manage) -> None:
    """A step that has been overdue for long shows that no conductor works."""
    conductor.clock.advance(-900)
    (uuid,) = conductor.create(name="late")
    status, ((kind, name, text, state),) = found(manage, "--heal")
    assert (4, "step", "late", "left") == (status, kind, name, state)
    assert text.startswith("scheduling is overdue by 8")


def test_several_faults_at_once(conductor: Conductor, database: Database, manage: Manage) -> None:
    """Healing repairs what it can, and the status shows that findings are left."""
    break_it(database, NODES, vcpus_used=7)
    break_it(database, SERVICES, deleted=True)
    status, rows = found(manage, "--heal")
    assert (4, {("usage", "healed"), ("host", "left")}) == (status, {(kind, state) for kind, _, _, state in rows})


@pytest.mark.parametrize(("status", "_instance", "_used"), STEPS)
def test_a_move_agrees_with_itself_at_every_step(database: Database, status: str, _instance: Any, _used: Any) -> None:
    """The claim of a move's record is in the usage of its host; an overdue step is found."""
    stage = Stage(database)
    stage.until(status)
    now = stage.conductor.clock()
    assert [] == database.read(audit.find, now)
    waits_for_operator = status == move_states.FINISHED
    later = now + seconds(7200)
    expected = [] if waits_for_operator else ["step"]
    assert expected == [each.kind for each in database.read(audit.find, later)]


def test_an_address_of_what_is_over(manage: Manage, conductor: Conductor, database: Database) -> None:
    """It is released. A live instance that shows what it has not claimed is only reported."""
    conductor.operator.create_network({"name": "lab", "bridge": "br0", "subnet": "10.0.0.0/24"})
    gone, liar, *_rest = conductor.create(count=3, networks="auto")
    names = {uuid: conductor.operator.show_instance(uuid)["instance"]["name"] for uuid in (gone, liar)}
    break_it(database, INSTANCES, where_uuid=gone, deleted=True, interfaces=None)
    with database.engine.begin() as connection:
        connection.execute(models.addresses.delete().where(models.addresses.c.instance_uuid == liar))
    status, rows = found(manage, "--heal")
    assert 4 == status
    assert {
        ("address", names[gone], "it has addresses after its end", "healed"),
        ("address", names[liar], "it shows addresses that it has not claimed", "left"),
    } == {row for row in rows if row[0] == "address"}
    assert 1 == conductor.operator.show_network("lab")["used"]
