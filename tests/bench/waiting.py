# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room: what 10,000 of them cost while nothing changes, and how many decisions a freed slot takes.

A conductor in this process works on a PostgreSQL server; the scheduler is not asked. One instance of a real host is freed.
"""

from __future__ import annotations

import datetime
import statistics
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.tables import models
from tests.bench import daemons, databases, figures
from tests.worlds.conductor import INCARNATION, Conductor

WAITERS = (0, 100, 10_000)
HOSTS = 1000
#: One look a second, for a minute.
LOOKS = 60
#: Freed slots of 2, 4 and 8 vcpus; builds need 1 to 8.
SLOTS = (2, 4, 8)
ROUNDS = 10
_PROJECTS = 20
_FULL = {"memory_mb": 64_000, "vcpus": 16, "local_gb": 1000}


def run() -> None:
    for waiters in WAITERS:
        with databases.postgresql() as server:
            _measure(server, waiters)


def _measure(server: databases.Server, waiters: int) -> None:
    conductor = Conductor(server.database)
    for number in range(HOSTS):
        conductor.add_host(f"h{number}")
        _report(conductor, f"h{number}", free=0)
    _insert(server.database, waiters, conductor.clock())
    conductor.room_queue.look()
    statements, took_s = _look(conductor)
    figures.report(
        "waiting",
        waiters=waiters,
        hosts=HOSTS,
        idle_statements_a_minute=statements,
        idle_processor_ms_a_minute=round(took_s * 1e3, 1),
        idle_server_ms_a_minute=round(_server_s(server, lambda: _look(conductor)) * 1e3, 1),
    )
    for slot in SLOTS if waiters else ():
        woken, spent = zip(*(_free(conductor, f"h{number}", slot) for number in range(ROUNDS)), strict=True)
        figures.report(
            "waiting",
            waiters=waiters,
            slot_vcpus=slot,
            woken_mean=statistics.mean(woken),
            woken_most=max(woken),
            processor_ms=round(statistics.median(spent) * 1e3, 2),
        )


def _look(conductor: Conductor) -> tuple[int, float]:
    """Statements and processor time of a minute in which nothing changes."""
    count = 0

    def note(*_arguments: Any) -> None:
        nonlocal count
        count += 1

    engine = conductor.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    began = time.process_time()
    for _second in range(LOOKS):
        conductor.clock.advance(1)
        conductor.room_queue.look()
    took_s = time.process_time() - began
    sa.event.remove(engine, "before_cursor_execute", note)
    assert not conductor.tasks.cast
    return count, took_s


def _server_s(server: databases.Server, work: Any) -> float:
    """Processor time of the server's processes, and of the others that they have ended."""
    before = daemons.cpu_s(server.pid)
    work()
    return daemons.cpu_s(server.pid) - before


def _free(conductor: Conductor, host: str, vcpus: int) -> tuple[int, float]:
    """Builds that a freed slot wakes in its first look, and the processor time of the look."""
    conductor.clock.advance(1)
    conductor.agents.report_state(Heartbeat("fleet-compute", [host], INCARNATION))
    conductor.room_queue.look()
    _report(conductor, host, free=vcpus)
    began = time.process_time()
    conductor.room_queue.look()
    took_s = time.process_time() - began
    woken = len(conductor.tasks.cast)
    conductor.tasks.cast.clear()
    _report(conductor, host, free=0)
    conductor.room_queue.look()
    return woken, took_s


def _report(conductor: Conductor, host: str, free: int) -> None:
    ratios = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0}
    report = {"host": host, "node": host, **_FULL, **ratios, "reserved_vcpus": 16 - free}
    (answer,) = conductor.agents.report_hosts([report], {host: [host]})
    assert answer["accepted"], answer


def _insert(database: Database, waiters: int, now: datetime.datetime) -> None:
    with database.engine.begin() as connection:
        for table, rows in zip(
            (models.build_requests, models.instances, models.queued_builds),
            zip(*_rows(waiters, now), strict=True),
            strict=False,
        ):
            connection.execute(table.insert(), list(rows))
        generation = connection.execute(sa.select(models.generations.c.value)).scalar_one()
        connection.execute(models.queued_builds.update().values(refused_generation=generation))
        connection.execute(sa.text("ANALYZE"))


def _rows(waiters: int, now: datetime.datetime) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    until = now + seconds(7 * 86400)
    for number in range(waiters):
        vcpus, uuid = (1, 2, 4, 8)[number % 4], f"{number:08x}-0000-4000-8000-000000000000"
        size = {"vcpus": vcpus, "memory_mb": 1024 * vcpus, "root_gb": 10}
        flavor = {**size, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}, "name": "", "id": None}
        spec = {"flavor": flavor, "image": {"properties": {}}, "scheduler_hints": {}, "wait_for_capacity_s": 7 * 86400}
        request = {"reservation_id": f"r-{number}", "spec": spec, "created_at": now}
        state = {"vm_state": "building", "task_state": "queued", "attempt": 1, "deadline": until}
        instance = {
            "uuid": uuid,
            "name": f"w{number}",
            "reservation_id": f"r-{number}",
            "created_at": now,
            **size,
            **state,
            "project_id": f"p{number % _PROJECTS}",
            "launch_index": 0,
        }
        need = {"need_vcpus": vcpus, "need_memory_mb": 1024 * vcpus, "need_disk_gb": 10, "shape": f"{vcpus}"}
        why = {"reason": "CAPACITY", "message": "Full.", "fresh": False}
        yield (
            request,
            instance,
            {"instance_uuid": uuid, "queued_at": now, "wait_until": until, "due_at": until, **need, **why},
        )
