# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of networks, namespace ``operator``. :mod:`fleet.rpc.clients.operator.catalog` calls it."""

from __future__ import annotations

import ipaddress

from oslo_utils import uuidutils

from conductor_stub.steps.acts import Acts, Reader
from fleet.clock import Clock, as_text, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import networks
from fleet.db.catalog.networks import Known
from fleet.db.engine.database import Database
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.answers.catalog import NetworkView
from fleet.objects.network import Network
from fleet.rpc.endpoint import endpoint, require_size, served


class NetworkManager:
    """A ``name`` is a name or a uuid. For a project only the networks exist that it may use."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._acts = Acts(database, clock)
        self._clock = clock

    @endpoint
    def list_networks(self, context: RequestContext) -> list[NetworkView]:
        """Return the networks in the order of their names."""
        return [_view(each, context.scope) for each in self._database.read(networks.list_all, context.scope)]

    @endpoint
    def create_network(self, context: RequestContext, network: JSONObject) -> NetworkView:
        """:param network: a Network

        :raises errors.InvalidInput: errors.Conflict: the name is taken, or another network on its bridge overlaps it
        """
        require_size(network, "network")
        wanted, uuid = Network.from_wire(network), uuidutils.generate_uuid()
        asked = uuid, wanted, self._clock()
        self._acts.write(context, "network.create", wanted.name, _reader(uuid), networks.create, *asked)
        return _view(self._database.read(networks.find, uuid))

    @endpoint
    def show_network(self, context: RequestContext, name: fields.Name) -> NetworkView:
        """:raises errors.NotFound: errors.Conflict: several match"""
        return _view(self._database.read(networks.find, name, context.scope), context.scope)

    @endpoint
    def delete_network(self, context: RequestContext, name: fields.Name) -> None:
        """:raises errors.Conflict: instances have addresses of it"""
        row = self._database.read(networks.find, name).row
        self._acts.write(context, "network.delete", row.name, _reader(row.uuid), networks.remove, row.uuid)


def _reader(uuid: str) -> Reader:
    """Return the fields of a network that an act records."""
    return lambda tx: _view(networks.find(tx, uuid))


def _view(known: Known, scope: str | None = None) -> NetworkView:
    """:param scope: the project that asks, and is named alone if only some may use the network; None: all are named"""
    row, projects = known.row, list(known.projects)
    return {
        "uuid": row.uuid,
        "name": row.name,
        "bridge": row.bridge,
        "subnet": row.subnet,
        "gateway": row.gateway,
        "dns": row.dns,
        "is_default": row.is_default,
        "first": str(ipaddress.IPv4Address(row.first_number)),
        "last": str(ipaddress.IPv4Address(row.last_number)),
        "projects": projects if scope is None or not projects else [scope],
        "addresses": row.last_number - row.first_number + 1,
        "used": known.used,
        "created_at": as_text(row.created_at),
    }
