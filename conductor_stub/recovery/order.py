# SPDX-License-Identifier: Apache-2.0
"""In which order the guests of a host are moved. :mod:`conductor_stub.recovery.evacuation` asks for it."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from fleet import states
from fleet.db.instances import instance_values
from fleet.db.tables.instances import RequestedInstance

#: Key of a flavor's extra specs: the administrator's priority.
OF_FLAVOR = "recovery:priority"
#: Key of an instance's metadata: its project's priority.
OF_INSTANCE = "recovery_priority"
_MOST = 1000


def in_order(rows: Sequence[RequestedInstance]) -> list[str]:
    """The uuids: guests of the highest flavor priority first, running ones before the others, and last those that wait
    for the revert of their resize, so that they hold up no other guest.

    Projects take turns in each of these classes: what a project writes into the metadata of its instances orders its own.
    Of those that are equal the largest go first, as they find room the least easily.
    """
    classes: dict[tuple[bool, int, bool, str], list[tuple[Any, ...]]] = collections.defaultdict(list)
    for row in rows:
        spec = instance_values.spec_of(row)
        of_flavor = _number((spec["flavor"].get("extra_specs") or {}).get(OF_FLAVOR))
        of_instance = _number((spec.get("metadata") or {}).get(OF_INSTANCE))
        place = (row.vm_state == states.RESIZED, -of_flavor, row.vm_state in states.AT_REST, row.project_id or "")
        classes[place].append((-of_instance, -row.memory_mb, row.uuid))
    keys = [
        (is_resized, priority, at_rest, number, project, each[-1])
        for (is_resized, priority, at_rest, project), guests in classes.items()
        for number, each in enumerate(sorted(guests))
    ]
    return [key[-1] for key in sorted(keys)]


def _number(value: object) -> int:
    """A priority from -1000 to 1000; 0 if there is none, or if it cannot be read."""
    try:
        number = int(str(value)[:16])
    except ValueError:
        return 0
    return max(-_MOST, min(_MOST, number))
