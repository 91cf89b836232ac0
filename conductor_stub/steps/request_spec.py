# SPDX-License-Identifier: Apache-2.0
"""Makes the scheduler's input: ``request_spec`` and ``filter_properties`` in the form of nova 12.0.0.

Called by :mod:`conductor_stub.builds.placement`, :mod:`conductor_stub.moves.placement` and modules beside these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet.context import RequestContext
from fleet.db.catalog.groups import PlacedMember
from fleet.db.engine.database import Database
from fleet.db.hosts import hosts
from fleet.db.tables.catalog import GroupRow
from fleet.json_codec import JSONObject
from fleet.objects import Instance, Place, Zone, instance_group

#: Calls the scheduler with a request spec and filter properties.
Select = Callable[[RequestContext, JSONObject, JSONObject], Sequence[JSONObject]]

#: Names of hosts that a request has without a look for a shorter list.
MANY = 1000
_POLICIES_THAT_NEED_HOSTS = (instance_group.AFFINITY, instance_group.ANTI_AFFINITY)


def build_request_spec(instances: Sequence[Instance]) -> JSONObject:
    """One request for all ``instances``. They share flavor, image and networks; the other properties are the first one's."""
    first = instances[0]
    flavor = first.flavor
    bridges = sorted({plug["bridge"] for plug in first.interfaces or ()})
    return {
        "num_instances": len(instances),
        "instance_uuids": [instance.uuid for instance in instances],
        "image": first.image.to_wire(),
        "instance_type": flavor.to_wire(),
        "instance_properties": {
            "uuid": first.uuid,
            "project_id": first.project_id,
            "user_id": first.user_id,
            "reservation_id": first.reservation_id,
            "availability_zone": first.availability_zone,
            "image_ref": first.image.id,
            "memory_mb": flavor.memory_mb,
            "vcpus": flavor.vcpus,
            "root_gb": flavor.root_gb,
            "ephemeral_gb": flavor.ephemeral_gb,
            "numa_topology": first.numa_topology,
            "pci_requests": first.pci_requests,
            **({"bridges": bridges} if bridges else {}),
        },
    }


def build_filter_properties(spec: JSONObject) -> JSONObject:
    """Return the filter properties of a stored build request ``spec``.

    A forced host takes the instance without any filter. A requested destination must pass the filters.
    """
    zone = Zone.parse(spec["availability_zone"])
    properties: JSONObject = {"scheduler_hints": spec["scheduler_hints"], "instance_type": spec["flavor"]}
    if spec["ignore_hosts"]:
        properties["ignore_hosts"] = spec["ignore_hosts"]
    if zone.host:
        properties["force_hosts"] = [zone.host]
    if zone.node:
        properties["force_nodes"] = [zone.node]
    places = {"host": spec.get("requested_host"), "node": spec.get("requested_node")}
    if any(places.values()):
        properties["requested_destination"] = {name: value for name, value in places.items() if value}
    return properties


def attempts_allowed(spec: JSONObject, max_attempts: int) -> int:
    """Number of hosts that may be tried: ``scheduler_max_attempts``, or fewer if the request says so."""
    return min(spec.get("max_attempts") or max_attempts, max_attempts)


def may_retry(filter_properties: JSONObject, max_attempts: int) -> bool:
    """Return True if another host may be tried. Not if one attempt is allowed, or if a host or node is forced."""
    forced = (filter_properties.get("force_hosts") or [], filter_properties.get("force_nodes") or [])
    return max_attempts > 1 and all(len(names) != 1 for names in forced)


def populate_retry(
    filter_properties: JSONObject, max_attempts: int, attempt: int, tried: Sequence[tuple[str, str | None]]
) -> None:
    """Add the hosts that were tried, unless no other host may be tried."""
    if may_retry(filter_properties, max_attempts):
        filter_properties["retry"] = {"num_attempts": attempt, "hosts": [list(pair) for pair in tried]}


def leave_alone(filter_properties: JSONObject, names: Sequence[str]) -> None:
    """Exclude these hosts this time. A forced host is not excluded."""
    if names and not filter_properties.get("force_hosts") and not filter_properties.get("force_nodes"):
        filter_properties["ignore_hosts"] = sorted({*filter_properties.get("ignore_hosts", ()), *names})


def naming_few(database: Database, select: Select) -> Select:
    """Return ``select`` for requests that may exclude most hosts of a large fleet.

    Such a request gets ``within_hosts``, the hosts that are left, which the client sends in place of the others.
    """

    def selected(context: RequestContext, spec: JSONObject, filter_properties: JSONObject) -> Sequence[JSONObject]:
        excluded = {name.lower() for name in filter_properties.get("ignore_hosts", ())}
        if len(excluded) >= MANY:
            left = [name for name in database.read(hosts.names) if name.lower() not in excluded]
            if len(left) < len(excluded):
                filter_properties = {**filter_properties, "within_hosts": left}
        return select(context, spec, filter_properties)

    return selected


def setup_instance_group(
    filter_properties: JSONObject, group: GroupRow, members: Sequence[PlacedMember], own_uuids: Sequence[str]
) -> None:
    """Add the members of the group and the hosts that they run on, and the rules of the group."""
    others = [(row.uuid, row.host) for row in members if row.host is not None and row.uuid not in own_uuids]
    if group.rules:
        filter_properties["group_rules"] = group.rules
    filter_properties.update(
        group_updated=group.policy in _POLICIES_THAT_NEED_HOSTS,
        group_hosts=sorted({host for _uuid, host in others}),
        group_policies=[] if group.policy == instance_group.NONE else [group.policy],
        group_members=list(dict.fromkeys(row.uuid for row in members)),
        group_places=[[uuid, host] for uuid, host in others],
        group_uuid=group.uuid,
        group_max_server_per_host=group.max_server_per_host,
    )


def populate_filter_properties(filter_properties: JSONObject, place: Place) -> dict[str, object]:
    """A copy for the chosen host: the host counts as tried, and its limits are added unless it was forced.

    The excluded hosts are left out. They may be nearly all of a large fleet, and an order goes out for each instance.
    """
    local = {name: value for name, value in filter_properties.items() if name != "ignore_hosts"}
    retry = local.get("retry")
    if retry:
        local["retry"] = {**retry, "hosts": [*retry["hosts"], [place.host, place.nodename]]}
    if not local.get("force_hosts"):
        local["limits"] = place.limits
    return local
