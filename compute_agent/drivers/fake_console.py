# SPDX-License-Identifier: Apache-2.0
"""The console of a simulated guest: no more than its record says. Called by :mod:`compute_agent.drivers.fake`."""

from __future__ import annotations

from collections.abc import Iterator

from compute_agent.drivers.guest_record import GuestRecord
from fleet import states


def text(record: GuestRecord) -> str:
    """Return the lines of one boot. A guest that is off has printed that as well."""
    return "".join(f"[{number:5}.000000] {line}\n" for number, line in enumerate(_lines(record)))


def _lines(record: GuestRecord) -> Iterator[str]:
    yield "Simulated guest: nothing runs, and these lines are all that it prints"
    yield f"DMI: fleet, uuid {record.uuid}"
    yield f"attempt {record.attempt} to build it"
    for number in range(record.vcpus):
        yield f"smp: cpu {number} is up"
    yield f"smp: {record.vcpus} cpus in all"
    yield f"memory: {record.memory_mb} MiB available"
    yield f"vda: {record.disk_gb} GiB"
    for each in record.attachments():
        yield f"{each.device}: volume {each.volume_uuid}"
    yield "vda: mounted as the root file system"
    yield f"hostname set to {record.name or record.uuid}"
    yield "reached target: multi-user system"
    yield f"{record.name or record.uuid} login:"
    if record.power_state in states.DOWN:
        yield "powered down"
