# SPDX-License-Identifier: Apache-2.0
"""Long lists, asked for in parts: an answer of the conductor has a limit of bytes.

Called by commands and by ``fleet-api``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fleet import errors
from fleet.client.calls import Calls
from fleet.json_codec import JSONMapping
from fleet.objects.answers.instances import InstanceView, MigrationView
from fleet.objects.answers.volumes import SnapshotView, VolumeView
from fleet.rpc.clients import OperatorCalls

View = TypeVar("View", InstanceView, VolumeView, SnapshotView, MigrationView)

#: The largest instances, and volumes, that there can be are then less than an answer may have.
_BATCH, _VOLUMES, _MOVES = 100, 100, 1000


def instances(conductor: Calls, filters: JSONMapping, most: int | None = None) -> list[InstanceView]:
    """Return the instances, the oldest first. :param most: only that many; None: all"""
    return _whole(conductor.operator.list_instances, filters, _BATCH, most)


def volumes(operator: OperatorCalls, filters: JSONMapping) -> list[VolumeView]:
    return _whole(operator.list_volumes, filters, _VOLUMES)


def snapshots(operator: OperatorCalls, filters: JSONMapping) -> list[SnapshotView]:
    return _whole(operator.list_snapshots, filters, _VOLUMES)


def migrations(operator: OperatorCalls, filters: JSONMapping, most: int | None = None) -> list[MigrationView]:
    """Return moves, the newest first. :param most: only that many; None: all"""
    return _whole(operator.list_migrations, filters, _MOVES, most)


def _whole(
    listed: Callable[..., list[View]], filters: JSONMapping, at_once: int, most: int | None = None
) -> list[View]:
    found: list[View] = []
    while True:
        after = {"marker": found[-1]["uuid"]} if found else {}
        wanted = at_once if most is None else min(at_once, most - len(found))
        try:
            part = listed(filters, limit=wanted, **after)
        except errors.VersionPinned:
            # A conductor that is too old for parts answers with all.
            return listed(filters)[:most]
        found += part
        # A conductor that is too old for limits as well has returned the whole list.
        if len(part) != wanted or len(found) == most:
            return found[:most]
