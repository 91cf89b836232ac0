# SPDX-License-Identifier: Apache-2.0
"""Networks: records that the administrator keeps, and which projects may use them.

Called by :mod:`conductor_stub.operators.networks` and :mod:`conductor_stub.builds.intake`.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import ipaddress
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.networks import NetworkRow
from fleet.json_codec import JSONObject
from fleet.objects import network
from fleet.objects.network import Interface, Network, WantedNetwork

NETWORKS = models.networks
PROJECTS = models.network_projects
ADDRESSES = models.addresses

_ALL = sa.select(NETWORKS).order_by(NETWORKS.c.name, NETWORKS.c.uuid)
_ALLOWED = sa.select(PROJECTS.c.network_uuid, PROJECTS.c.project_id).order_by(
    PROJECTS.c.network_uuid, PROJECTS.c.project_id
)
_USED = (
    sa.select(ADDRESSES.c.network_uuid, sa.func.count().label("used"))
    .group_by(ADDRESSES.c.network_uuid)
    .order_by(ADDRESSES.c.network_uuid)
)


@dataclasses.dataclass(frozen=True)
class Known:
    """A network of the ledger. :param used: addresses that are claimed; 0 for a project, which does not see how many"""

    row: NetworkRow
    projects: Collection[str]
    used: int = 0

    def may_use(self, project: str | None) -> bool:
        return not self.projects or project in self.projects

    def interface(self, address: str | None, field: str, in_range: bool = True) -> JSONObject:
        """A plug into the network that has no address yet, or is to have this one.

        :param in_range: the address must be one of the network's range
        :raises errors.InvalidInput: no guest can have the address
        """
        row, subnet = self.row, ipaddress.IPv4Network(self.row.subnet)
        if address is not None:
            found = ipaddress.IPv4Address(address)
            reserved = (str(subnet.network_address), str(subnet.broadcast_address), row.gateway, *row.dns)
            if found not in subnet or address in reserved:
                reason = f"must be an address for a guest in {row.subnet} of network {row.name}, not {address}"
                raise errors.InvalidInput(field=field, reason=reason)
            if in_range and not row.first_number <= int(found) <= row.last_number:
                first, last = (ipaddress.IPv4Address(each) for each in (row.first_number, row.last_number))
                reason = f"must be in the range of network {row.name}, from {first} to {last}, not {address}"
                raise errors.InvalidInput(field=field, reason=reason)
        plug = Interface(row.uuid, row.name, row.bridge, subnet.prefixlen, row.gateway, list(row.dns))
        return dataclasses.replace(plug, address=address or "").to_wire()


def create(tx: Transaction, uuid: str, wanted: Network, now: datetime.datetime) -> None:
    """The caller chooses the uuid, so that a repeated commit finds its own row.

    :raises errors.Conflict: the name is taken, or a network on the same bridge has some of the addresses
    """
    # Two networks that are made at a time would not see that they overlap.
    tx.lock_last()
    rows = cast("Sequence[NetworkRow]", tx.execute(_ALL).all())
    if any(row.uuid == uuid for row in rows):
        return
    subnet = ipaddress.IPv4Network(wanted.subnet)
    for row in rows:
        if row.bridge == wanted.bridge and subnet.overlaps(ipaddress.IPv4Network(row.subnet)):
            reason = f"overlaps network {row.name} with {row.subnet} on the same bridge, {row.bridge}"
            raise errors.Conflict(kind="Subnet", name=wanted.subnet, reason=reason)
    first, last = (int(ipaddress.IPv4Address(each or "")) for each in (wanted.first, wanted.last))
    values = {name: getattr(wanted, name) for name in ("name", "bridge", "subnet", "gateway", "dns", "is_default")}
    numbers = {"first_number": first, "last_number": last, "next_number": first}
    with lookup.naming("Network", wanted.name):
        tx.insert(NETWORKS, {"uuid": uuid, **values, **numbers, "created_at": now})
    if wanted.projects:
        tx.insert_all(PROJECTS, [{"network_uuid": uuid, "project_id": each} for each in wanted.projects])


def list_all(connection: Transaction | sa.Connection, project: str | None = None) -> list[Known]:
    """Return the networks in the order of their names. :param project: only those that it may use; None: all"""
    # All addresses of the fleet are counted.
    used = {row.network_uuid: row.used for row in connection.execute(_USED)} if project is None else {}
    return [dataclasses.replace(each, used=used.get(each.row.uuid, 0)) for each in _usable(connection, project)]


def find(connection: Transaction | sa.Connection, name: str, project: str | None = None) -> Known:
    """Find a network by uuid, by name, or by the beginning of a uuid.

    :param project: look only at those that it may use; None: at all
    :raises errors.NotFound: errors.Conflict: several match
    """
    found = _find(connection, name, project)
    return found if project is not None else dataclasses.replace(found, used=_count(connection, found.row.uuid))


def plugs(
    connection: sa.Connection, wanted: network.Wanted, project: str | None, scope: str | None
) -> list[JSONObject]:
    """Return the networks of each instance of a request, without addresses but those that the request names.

    :param project: that the instances belong to
    :param scope: look only at networks that this project may use, and at addresses of their ranges; None: at all
    :raises errors.NotFound: errors.Conflict: errors.InvalidInput:
    """
    field = "request.networks"
    if wanted == network.AUTO:
        found = default(connection, project)
        return [found.interface(None, field)] if found is not None else []
    named: Sequence[WantedNetwork] = network.named(wanted)
    known = [(_find(connection, each.network, scope), each.address) for each in named]
    if len({each.row.uuid for each, _address in known}) < len(known):
        raise errors.InvalidInput(field=field, reason="names a network twice")
    return [each.interface(address, f"{field}.address", in_range=scope is not None) for each, address in known]


def default(connection: Transaction | sa.Connection, project: str | None) -> Known | None:
    """The default network of those that the project may use; else the only one of them.

    :raises errors.Conflict: there are several
    """
    usable = [each for each in _usable(connection, None) if each.may_use(project)]
    found = [each for each in usable if each.row.is_default] or usable
    if len(found) > 1:
        names = ", ".join(each.row.name for each in found)
        raise errors.Conflict(kind="Network", name="auto", reason=f"stands for several, name one: {names}")
    return found[0] if found else None


def remove(tx: Transaction, uuid: str) -> None:
    """:raises errors.Conflict: instances have addresses of it"""
    row = tx.execute(sa.select(NETWORKS).where(NETWORKS.c.uuid == uuid).with_for_update()).one_or_none()
    if row is None:
        return
    if count := _count(tx, uuid):
        reason = f"is in use: instances hold {count} of its addresses"
        raise errors.Conflict(kind="Network", name=row.name, reason=reason)
    tx.execute(PROJECTS.delete().where(PROJECTS.c.network_uuid == uuid))
    tx.execute(NETWORKS.delete().where(NETWORKS.c.uuid == uuid))


def _usable(connection: Transaction | sa.Connection, project: str | None) -> list[Known]:
    """Return networks as ``list_all`` does, without the counts of addresses. Each build reads them."""
    allowed: Mapping[str, list[str]] = collections.defaultdict(list)
    for uuid, each in connection.execute(_ALLOWED):
        allowed[uuid].append(each)
    rows = cast("Sequence[NetworkRow]", connection.execute(_ALL).all())
    known = [Known(row, tuple(allowed[row.uuid])) for row in rows]
    return [each for each in known if project is None or each.may_use(project)]


def _find(connection: Transaction | sa.Connection, name: str, project: str | None) -> Known:
    known = {each.row.uuid: each for each in _usable(connection, project)}
    among = (NETWORKS.c.uuid.in_(sorted(known)),)
    uuid = lookup.find(connection, "Network", NETWORKS, name, among=among)
    if uuid not in known:
        raise errors.NotFound(kind="Network", name=name)
    return known[uuid]


def _count(connection: Transaction | sa.Connection, uuid: str) -> int:
    used = sa.select(sa.func.count()).select_from(ADDRESSES).where(ADDRESSES.c.network_uuid == uuid)
    return int(connection.execute(used).scalar_one())
