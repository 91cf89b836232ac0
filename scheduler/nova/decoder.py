# SPDX-License-Identifier: Apache-2.0
"""Decodes the arguments of nova's ``select_destinations``: a RequestSpec object, or before 4.3 two dicts.

Called by the modules beside it and those of :mod:`scheduler.nova.shadow`. The object becomes the two dicts of this
project's own contract, which :class:`fleet.objects.RequestSpec` parses: there is one parser, and plugins in nova's
form find the keys that they know. Only known fields are copied. Passwords of a cell, which every move carries, and
fields of later releases do not get past this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pydantic

from fleet import control_characters, errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields, hints, structure
from scheduler.nova import wanted as resources_wanted
from scheduler.nova.domain_columns import DISABLED
from scheduler.nova.request import Call, Destination, Flags, NovaRequest

#: Hint with which nova marks the check of a rebuild.
CHECK_TYPE = "_nova_check_type"
_FLAVOR = ("id", "name", "flavorid", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs")
_IMAGE = ("id", "name", "status", "min_ram", "min_disk", "size")
_GROUP_KEYS = ("group_updated", "group_hosts", "group_policies", "group_members", "group_uuid")
#: Keys of a request for PCI devices that placement judges. Pools do not have them, or not with these values.
_OF_PLACEMENT = ("resource_class", "traits", "rp_uuids")
_PLACES = ("ignore_hosts", "force_hosts", "force_nodes")


@dataclasses.dataclass(frozen=True)
class _Cell:
    uuid: fields.Uuid


@dataclasses.dataclass(frozen=True)
class _Destination:
    host: fields.Name | None = None
    node: fields.Name | None = None
    cell: _Cell | None = None
    allow_cross_cell_move: bool | None = None
    aggregates: list[fields.Name] | None = None
    forbidden_aggregates: list[fields.Uuid] | None = None


@dataclasses.dataclass(frozen=True)
class _Rules:
    #: nova sends numbers of rules as text.
    max_server_per_host: Annotated[int, pydantic.Field(ge=1, le=fields.INT32_MAX)] = 1


@dataclasses.dataclass(frozen=True)
class _Group:
    uuid: fields.Text | None = None
    policy: fields.Text | None = None
    policies: list[fields.Text] | None = None
    members: list[fields.Uuid] | None = None
    hosts: list[fields.Text] | None = None


def decode(arguments: Mapping[str, object]) -> Call:
    """:raises errors.InvalidInput: naming the field"""
    flags = fields.parse(Flags, {name: arguments[name] for name in _FLAGS if name in arguments}, "arguments")
    if "spec_obj" in arguments:
        spec = _object(arguments["spec_obj"], "spec_obj")
        wanted, properties = _of_object(spec, flags)
        destination = spec.get("requested_destination")
    elif "request_spec" in arguments:
        spec = _object(arguments["request_spec"], "request_spec")
        given = _object(arguments.get("filter_properties") or {}, "filter_properties")
        wanted, properties = _of_dicts(spec, given)
        destination = given.get("requested_destination")
    else:
        raise errors.InvalidInput(field="spec_obj", reason="is missing, and so is request_spec")
    checked = properties["scheduler_hints"].pop(CHECK_TYPE, None)
    request = NovaRequest.from_wire(wanted, properties)
    resources = resources_wanted.of_request(spec, request, bool(spec.get("is_bfv")))
    request = dataclasses.replace(
        request,
        destination=_destination(destination),
        wanted=resources,
        required_traits=resources.required,
        forbidden_traits=resources.forbidden - {DISABLED},
        is_bfv=bool(spec.get("is_bfv")),
        disk_format=_disk_format(spec.get("image")),
    )
    return Call(
        request,
        named=bool(flags.instance_uuids),
        return_objects=flags.return_objects,
        return_alternates=flags.return_alternates,
        rebuild_check=hints.single(checked) == "rebuild",
    )


_FLAGS = tuple(each.name for each in dataclasses.fields(Flags))


def _of_object(spec: Mapping[str, object], flags: Flags) -> tuple[JSONObject, JSONObject]:
    """Return ``request_spec`` and ``filter_properties`` of a RequestSpec object."""
    uuid = spec.get("instance_uuid")
    uuids = flags.instance_uuids
    # nova's num_instances is wrong in moves: the uuids count.
    count = len(uuids) if uuids else spec.get("num_instances", 1)
    flavor = _flavor(spec.get("flavor"), bool(spec.get("is_bfv")), "spec_obj.flavor")
    instance = {
        "uuid": uuid or (uuids[0] if uuids else ""),
        "project_id": spec.get("project_id"),
        "user_id": spec.get("user_id"),
        "availability_zone": spec.get("availability_zone"),
        "numa_topology": _without_nulls(spec.get("numa_topology"), spec.get("network_metadata")),
        "pci_requests": _pci(spec.get("pci_requests")),
    }
    image = _image(spec.get("image"))
    wanted = {
        "instance_type": flavor,
        "num_instances": count,
        "image": image,
        "instance_properties": {**instance, "image_ref": image["id"] or None},
        **({"instance_uuids": list(uuids)} if uuids else {}),
    }
    properties = {
        "scheduler_hints": _hints(spec.get("scheduler_hints")),
        **{name: spec.get(name) for name in _PLACES},
        **_group(spec.get("instance_group")),
    }
    return wanted, properties


def _of_dicts(spec: Mapping[str, object], given: Mapping[str, object]) -> tuple[JSONObject, JSONObject]:
    """Return the same from the arguments of version 4.0."""
    instance = _mapping(spec.get("instance_properties") or {}, "request_spec.instance_properties")
    kept = {name: instance.get(name) for name in _INSTANCE}
    wanted = {
        "instance_type": _flavor(spec.get("instance_type"), False, "request_spec.instance_type"),
        "num_instances": spec.get("num_instances", 1),
        "image": _image(spec.get("image")),
        "instance_properties": {
            **kept,
            "numa_topology": _without_nulls(instance.get("numa_topology")),
            "pci_requests": _pci(instance.get("pci_requests")),
        },
    }
    properties = {
        "scheduler_hints": _hints(given.get("scheduler_hints")),
        **{name: given[name] for name in (*_PLACES, *_GROUP_KEYS) if name in given},
    }
    return wanted, properties


_INSTANCE = ("uuid", "project_id", "user_id", "availability_zone", "root_gb", "ephemeral_gb", "memory_mb", "vcpus")


def _flavor(data: object, is_bfv: bool, field: str) -> JSONObject:
    """:param is_bfv: the root disk is a volume, so the host needs no room for it"""
    found = _mapping(data, field)
    flavor = {name: _cleaned(found[name]) for name in _FLAVOR if found.get(name) is not None}
    return {**flavor, "root_gb": 0} if is_bfv else flavor


def _image(data: object) -> JSONObject:
    found = _mapping(data or {}, "spec_obj.image")
    properties = _mapping(found.get("properties") or {}, "spec_obj.image.properties")
    # Of the properties that are lists, only the required traits matter to placement, and traits are read apart.
    scalars = {name: value for name, value in properties.items() if not isinstance(value, list | dict)}
    image = {name: _cleaned(found[name]) for name in _IMAGE if found.get(name) is not None}
    return {"id": "", **image, "properties": scalars}


def _cleaned(data: Any) -> Any:
    """Return text with its control characters escaped, as nova's API lets them through; a dict of text, too."""
    if isinstance(data, Mapping):
        return {_cleaned(name): _cleaned(value) for name, value in data.items()}
    if not isinstance(data, str) or data.isprintable():
        return data
    return control_characters.one_line(data.replace("\t", " "))[: fields.MOST_CHARACTERS]


def _disk_format(image: object) -> str:
    found = image.get("disk_format") if isinstance(image, Mapping) else None
    return found if isinstance(found, str) else ""


def _hints(data: object) -> JSONObject:
    """Return the hints. Lists of one value are unwrapped, as in the dicts that nova gives its own plugins."""
    found = _mapping(data or {}, "scheduler_hints")
    return {_cleaned(name): hints.single(value) for name, value in found.items() if name}


def _group(data: object) -> JSONObject:
    if not data:
        return {}
    found = _mapping(data, "spec_obj.instance_group")
    group = fields.parse(_Group, dict(found), "spec_obj.instance_group")
    policies = [group.policy] if group.policy else group.policies
    return group_properties(group.uuid, policies or [], found.get("_rules"), group.members or [], group.hosts or [])


def group_properties(
    uuid: str | None, policies: Sequence[str], rules: object, members: Sequence[str], hosts: Sequence[str]
) -> JSONObject:
    """Return the keys of ``filter_properties`` for a server group. :raises errors.InvalidInput: the rules"""
    parsed = fields.parse(_Rules, rules or {}, "spec_obj.instance_group._rules")
    return {
        "group_updated": True,
        "group_uuid": uuid,
        "group_policies": list(policies),
        "group_members": list(members),
        "group_hosts": list(hosts),
        "group_max_server_per_host": parsed.max_server_per_host,
    }


def _destination(data: object) -> Destination:
    if not data:
        return Destination()
    found = fields.parse(_Destination, data, "requested_destination")
    return Destination(
        found.host,
        found.node,
        found.cell.uuid if found.cell else None,
        bool(found.allow_cross_cell_move),
        tuple(frozenset(_uuids(each)) for each in found.aggregates or ()),
        frozenset(found.forbidden_aggregates or ()),
    )


def _uuids(text: str) -> list[str]:
    """Return the uuids of ``uuid`` or ``uuid,uuid``; before release 34 of nova, with ``in:`` in front."""
    return fields.parse(list[fields.Uuid], text.removeprefix("in:").split(","), "requested_destination.aggregates")


def _without_nulls(data: object, networks: object = None) -> object:
    """Return a topology whose cells have only the fields with a value: null means "not asked for".

    :param networks: NetworkMetadata of the instance, which nova sends apart
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("cells"), list):
        return data
    return {**data, "cells": [_set_fields(cell) for cell in data["cells"]], "network_metadata": networks}


def _set_fields(cell: object) -> object:
    return {name: value for name, value in cell.items() if value is not None} if isinstance(cell, Mapping) else cell


def _pci(data: object) -> object:
    """Return the requests for devices, by the properties of devices only."""
    found = data.get("requests") if isinstance(data, Mapping) else data
    if not isinstance(found, list):
        return found
    return [{**each, "spec": _properties(each.get("spec"))} if isinstance(each, Mapping) else each for each in found]


def _properties(spec: object) -> object:
    return [_without(each, _OF_PLACEMENT) for each in spec] if isinstance(spec, list) else spec


def _without(data: object, left_out: Sequence[str]) -> object:
    return {name: value for name, value in data.items() if name not in left_out} if isinstance(data, Mapping) else data


def _object(data: object, field: str) -> JSONMapping:
    return _mapping(structure.plain(data, field), field)


def _mapping(data: object, field: str) -> JSONMapping:
    if not isinstance(data, Mapping):
        raise errors.InvalidInput(field=field, reason="must be an object")
    return data
