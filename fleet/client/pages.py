# SPDX-License-Identifier: Apache-2.0
"""Long lists, asked for in parts: an answer of the conductor has a limit of bytes.

Called by commands and by ``fleet-api``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, Unpack

from fleet import errors
from fleet.client.calls import Calls
from fleet.json_codec import JSONMapping
from fleet.objects.answers.hosts import HostView, ListedService
from fleet.objects.answers.instances import BriefInstance, InstanceView, MigrationView, SchedulingRequestOf
from fleet.objects.answers.volumes import SnapshotView, VolumeView
from fleet.rpc.clients import OperatorCalls
from fleet.rpc.clients.operator.instances import Moving

View = TypeVar(
    "View", InstanceView, BriefInstance, VolumeView, SnapshotView, MigrationView, HostView, ListedService, list[Any]
)

#: The largest instances, volumes and hosts that there can be are then less than an answer may have.
_BATCH, _VOLUMES, _MOVES, _HOSTS = 100, 100, 1000, 2000
#: Brief instances have nothing that grows with what users store; their names may be long, and are escaped.
_BRIEF = 1000
#: Requests that are asked for at first.
_REQUESTS = 500


def instances(conductor: Calls, filters: JSONMapping, most: int | None = None) -> list[InstanceView]:
    """Return the instances, the oldest first. :param most: only that many; None: all"""
    return _whole(conductor.operator.list_instances, filters, _BATCH, most)


def brief_instances(operator: OperatorCalls, filters: JSONMapping) -> list[BriefInstance]:
    """Return the instances with few fields, the oldest first."""
    return _whole(operator.list_brief, filters, _BRIEF)


def volumes(operator: OperatorCalls, filters: JSONMapping) -> list[VolumeView]:
    return _whole(operator.list_volumes, filters, _VOLUMES)


def snapshots(operator: OperatorCalls, filters: JSONMapping) -> list[SnapshotView]:
    return _whole(operator.list_snapshots, filters, _VOLUMES)


def migrations(operator: OperatorCalls, filters: JSONMapping, most: int | None = None) -> list[MigrationView]:
    """Return moves, the newest first. :param most: only that many; None: all"""
    return _whole(operator.list_migrations, filters, _MOVES, most)


def hosts(operator: OperatorCalls) -> list[HostView]:
    """Return the nodes of all hosts, by host."""
    return _whole(operator.list_hosts, None, _HOSTS)


def host_table(operator: OperatorCalls, columns: Sequence[str]) -> list[list[Any]]:
    """Return these fields of all hosts, as one list for each node."""
    asked = [*columns, "uuid"]
    rows: list[list[Any]] = _whole(operator.host_table, asked, _HOSTS, marker_of=lambda last: last[-1])
    return [row[:-1] for row in rows]


def zones(operator: OperatorCalls) -> dict[str, bool]:
    """Return the zones that have hosts, each with whether one of its hosts is up and enabled."""
    try:
        return operator.list_zones()
    except errors.VersionPinned:
        # The conductor is too old to add up.
        found: dict[str, bool] = {}
        for zones_of_host, state, status in host_table(operator, ["zone", "state", "status"]):
            for zone in zones_of_host.split(","):
                found[zone] = found.get(zone, False) or (state, status) == ("up", "enabled")
        return dict(sorted(found.items()))


def host_states(operator: OperatorCalls, names: Sequence[str] | None = None) -> dict[str, tuple[str, str]]:
    """Return state and status by host: of these hosts, or of all that are down or disabled."""
    try:
        if names is None:
            found = operator.list_host_states()
        else:
            parts = (names[start : start + _HOSTS] for start in range(0, len(names), _HOSTS))
            found = {host: each for part in parts for host, each in operator.list_host_states(names=[*part]).items()}
        return {host: (state, status) for host, (state, status) in found.items()}
    except errors.VersionPinned:
        # The conductor is too old to choose.
        agents = [each for each in services(operator) if each["binary"] == "fleet-compute"]
        states = {each["host"]: (each["state"], each["status"]) for each in agents}
        ready = ("up", "enabled")
        return {host: each for host, each in states.items() if (each != ready if names is None else host in names)}


def services(operator: OperatorCalls) -> list[ListedService]:
    """Return all services, by binary and host."""

    def place(last: ListedService) -> list[str]:
        return [last["binary"], last["host"]]

    return _whole(operator.list_services, None, _HOSTS, marker_of=place)


def requests(
    operator: OperatorCalls, uuids: Sequence[str], **which: Unpack[Moving]
) -> Iterator[list[SchedulingRequestOf]]:
    """Yield the requests of these instances in parts.

    A request names each host that its guest cannot reach. If an answer would be too large, fewer are asked for at a time.
    Guests that cannot reach the same hosts share one list of them.
    """
    at_once, start = _REQUESTS, 0
    shared: dict[tuple[str, ...], list[str]] = {}
    while start < len(uuids):
        try:
            part = operator.requests_of(uuids=list(uuids[start : start + at_once]), **which)
        except errors.InvalidInput as refused:
            if refused.field != refused.ANSWER or at_once == 1:
                raise
            at_once = max(at_once // 4, 1)
            continue
        for each in part:
            names = each["filter_properties"].get("ignore_hosts")
            if names:
                each["filter_properties"]["ignore_hosts"] = shared.setdefault(tuple(names), names)
        yield part
        start += at_once


def _uuid(last: Any) -> object:
    return last["uuid"]


def _whole(
    listed: Callable[..., list[View]],
    filters: JSONMapping | Sequence[str] | None,
    at_once: int,
    most: int | None = None,
    marker_of: Callable[[View], object] = _uuid,
) -> list[View]:
    """
    :param filters: the first argument of the call; None: it has none
    :param marker_of: the marker of a part's last entry
    """
    asked = () if filters is None else (filters,)
    found: list[View] = []
    while True:
        after = {"marker": marker_of(found[-1])} if found else {}
        wanted = at_once if most is None else min(at_once, most - len(found))
        try:
            part = listed(*asked, limit=wanted, **after)
        except errors.VersionPinned:
            # A conductor that is too old for parts, or a scheduler that serves nova, answers with all.
            return listed(*asked)[:most]
        found += part
        # A conductor that is too old for limits as well has returned the whole list.
        if len(part) != wanted or len(found) == most:
            return found[:most]
