# SPDX-License-Identifier: Apache-2.0
"""Filters and orders of lists of servers, from the parameters of a query. Called by :mod:`fleet_api.servers.servers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import falcon
from oslo_utils import timeutils

from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import name_pattern
from fleet_api.access import identity, rules
from fleet_api.requests import bodies
from fleet_api.servers import server_view

Instance = JSONMapping
#: Parameters that the conductor filters by, and their names there.
_EXACT = {
    **{name: name for name in ("host", "reservation_id", "project_id", "vm_state")},
    "tenant_id": "project_id",
}
_TAGS_SINCE, _CHANGED_BEFORE_SINCE, _LOCKED_SINCE = (2, 26), (2, 66), (2, 73)
#: By parameter, whether a server fits: wanted tags, its tags.
_BY_TAGS: Mapping[str, Callable[[set[str], set[str]], bool]] = {
    "tags": lambda wanted, there: wanted <= there,
    "tags-any": lambda wanted, there: bool(wanted & there),
    "not-tags": lambda wanted, there: not wanted <= there,
    "not-tags-any": lambda wanted, there: not wanted & there,
}

#: By parameter, what an address of its version of IP has in it.
_BY_ADDRESS = {"ip": ".", "ip6": ":"}
#: Fields of an instance that a parameter of the same name must equal, as text.
_FIELDS = ("task_state", "power_state", "key_name", "user_id", "availability_zone", "launch_index", "hostname")
_CHANGES = ("changes-since", "changes-before")
#: Parameters for which more than a brief record of an instance is read.
OF_SPEC = ("flavor", "image", *_BY_ADDRESS, "locked", "description", *_FIELDS, *_CHANGES, *_BY_TAGS)
#: Parameters of lists.
PARAMETERS = (
    *("limit", "marker", "all_tenants", "all_projects", "deleted", "name", "status", "flavor", "image", "uuid"),
    *_BY_ADDRESS,
    *("locked", "sort_key", "sort_dir", "description"),
    *_EXACT,
    *_FIELDS,
    *_CHANGES,
    *_BY_TAGS,
)
#: Keys by which a list may be ordered, and the fields of an instance.
SORTED_BY = {
    **{
        name: name
        for name in (
            "created_at",
            "updated_at",
            "launched_at",
            "terminated_at",
            "host",
            "node",
            "vm_state",
            "task_state",
        )
    },
    **{name: name for name in ("power_state", "uuid", "project_id", "user_id", "availability_zone", "key_name")},
    "display_name": "name",
}
#: Fields that no conductor sorts by: the name of the key is in the request of the instance.
NOT_SORTED = ("key_name",)


def exact(request: falcon.Request) -> JSONObject:
    """Return the filters that the conductor has. :raises errors.InvalidInput: faults.Fault: not allowed"""
    bodies.require_known(request, PARAMETERS)
    found: JSONObject = {ours: value for name, ours in _EXACT.items() if (value := request.get_param(name))}
    if own := _own_project(request):
        found["project_id"] = own
    if bodies.flag(request, "deleted") and identity.sees_all(request):
        found["deleted"] = True
    if since := bodies.moment(request, "changes-since"):
        found["changed_since"] = since.isoformat()
    return found


def _own_project(request: falcon.Request) -> str | None:
    """Return the project whose servers are listed; None: of all. :raises faults.Fault: not allowed"""
    if request.context.is_open:
        return None
    if any(_is_set(request, name) for name in ("all_tenants", "all_projects")):
        identity.require(request, rules.ALL_PROJECTS)
        return None
    project: str = request.context.caller.project_id
    return project


def _is_set(request: falcon.Request, name: str) -> bool:
    """A parameter without a value is set, as in nova. :raises errors.InvalidInput:"""
    return request.get_param(name) == "" or bodies.flag(request, name)


def conditions(request: falcon.Request) -> list[Callable[[Instance], bool]]:
    """Return the filters that the conductor does not have. :raises errors.InvalidInput:"""
    found: list[Callable[[Instance], bool]] = []
    if name := request.get_param("name"):
        is_named = name_pattern.compiled(name, "name")
        found.append(lambda instance: is_named(instance["name"]))
    if statuses := {each.upper() for each in request.get_param_as_list("status") or ()}:
        found.append(lambda instance: server_view.status(instance) in statuses)
    if flavor := request.get_param("flavor"):
        found.append(lambda instance: instance["flavor"]["flavorid"] == flavor)
    if image := request.get_param("image"):
        found.append(lambda instance: instance["image"]["id"] == image)
    found += [
        _has_address(name, value, mark) for name, mark in _BY_ADDRESS.items() if (value := request.get_param(name))
    ]
    if request.context.version >= _LOCKED_SINCE and request.has_param("locked"):
        wanted = bodies.flag(request, "locked")
        found.append(lambda instance: server_view.is_locked(instance) == wanted)
    found += _tag_conditions(request)
    found += [_equals(name, value) for name in _FIELDS if (value := request.get_param(name))]
    if description := request.get_param("description"):
        described = name_pattern.compiled(description, "description")
        found.append(lambda instance: described(instance.get("description") or ""))
    if request.context.version >= _CHANGED_BEFORE_SINCE and (before := bodies.moment(request, "changes-before")):
        found.append(lambda instance: _changed_at(instance) <= before)
    if uuid := request.get_param("uuid"):
        found.append(lambda instance: instance["uuid"] == uuid)
    return found


def _has_address(name: str, value: str, mark: str) -> Callable[[Instance], bool]:
    """:param mark: what addresses of this version of IP have in them"""
    fits = name_pattern.compiled(value, name)

    def has(instance: Instance) -> bool:
        there = (each["address"] for each in instance.get("interfaces") or ())
        return any(mark in address and fits(address) for address in there)

    return has


def _tag_conditions(request: falcon.Request) -> list[Callable[[Instance], bool]]:
    """Return the filters by tags, from version 2.26 on; each names tags with commas between them."""
    if request.context.version < _TAGS_SINCE:
        return []
    found: list[Callable[[Instance], bool]] = []
    for name, fits in _BY_TAGS.items():
        if given := request.get_param(name):
            wanted = set(given.split(","))
            found.append(lambda instance, fits=fits, wanted=wanted: fits(wanted, set(instance.get("tags", ()))))  # type: ignore[misc]
    return found


def _equals(name: str, value: str) -> Callable[[Instance], bool]:
    return lambda instance: str(instance.get(name)) == value


def _changed_at(instance: Instance) -> Any:
    return timeutils.normalize_time(timeutils.parse_isotime(instance["updated_at"] or instance["created_at"]))
