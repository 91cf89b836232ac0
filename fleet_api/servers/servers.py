# SPDX-License-Identifier: Apache-2.0
"""Servers: create, list, show, delete. :mod:`fleet_api.application` adds the routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired

import falcon
import orjson
from oslo_utils import uuidutils
from typing_extensions import TypedDict

from fleet import errors, states
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects.answers.instances import AcceptedRequest
from fleet_api.access import identity, rules
from fleet_api.requests import answers, bodies, guard, microversions, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.servers import addresses, parts, server_forms, server_view
from fleet_api.servers.input import server_change, server_filters, server_request

#: Header with the client token of a build request.
IDEMPOTENCY_KEY = "Idempotency-Key"
#: Fields of a request, by the kind of what they name.
_NAMED_BY: Mapping[str, str] = {
    "Flavor": "server.flavorRef",
    "Volume": "server.block_device_mapping_v2",
    "Network": "server.networks",
    "Host": "server.host",
    "Node": "server.hypervisor_hostname",
}
#: Of one answer, about. A longer list has a link to the next page.
MOST_BYTES = 8 * 2**20
Instance = server_filters.Instance
Condition = Callable[[Instance], bool]
View = Callable[[falcon.Request, Instance], Any]


NewServer = TypedDict(
    "NewServer",
    {
        "id": str,
        "links": list[answers.Link],
        "OS-DCF:diskConfig": str,
        "security_groups": list[server_forms.SecurityGroup],
        "adminPass": NotRequired[str],
    },
)


class Created(TypedDict):
    """``warnings`` are ours: sentences about parts of the request that no filter judges."""

    server: NewServer
    warnings: NotRequired[list[str]]


class Reserved(TypedDict):
    """The answer if ``return_reservation_id`` was asked for. ``warnings`` are as in :class:`Created`."""

    reservation_id: str
    warnings: NotRequired[list[str]]


_ONE = answers.Answer({"server": server_forms.Server})


class Servers:
    """:param most: most servers in one answer
    :param passwords: makes a password for a guest; None: guests get only passwords that a request sets, and answers none
    """

    def __init__(self, conductor: Conductor, most: int, passwords: Callable[[], str] | None = None) -> None:
        self._conductor = conductor
        self._most = most
        self._passwords = passwords

    @guard.by("compute:servers:create")
    @answers.gives(answers.Answer(entire=Created | Reserved), 202)
    @bodies.takes(server_request.BODY)
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = server_request.parse(request, self._conductor)
        if server_request.names_host(wanted.build):
            identity.require(request, rules.FORCED_HOST)
        if wanted.build.get("block_device_mapping"):
            identity.require(request, rules.ATTACH)
        self._set_password(request, wanted.build)
        made = self._create(request, wanted.build)
        response.status = falcon.HTTP_202
        warnings = {"warnings": made["warnings"]} if made.get("warnings") else {}
        if wanted.reservation:
            response.media = {"reservation_id": made["reservation_id"], **warnings}
            return
        uuid = made["instances"][0]["uuid"]
        links = microversions.links(request, f"/servers/{uuid}")
        response.location = links[0]["href"]
        new: NewServer = {
            "id": uuid,
            "links": links,
            "OS-DCF:diskConfig": wanted.build.get("disk_config") or server_view.DISK_CONFIG,
            "security_groups": [{"name": "default"}],
        }
        if self._passwords is not None and "admin_password" in wanted.build:
            new["adminPass"] = wanted.build["admin_password"]
        response.media = {"server": new, **warnings}

    def _set_password(self, request: falcon.Request, build: JSONObject) -> None:
        """Make a password, except with an idempotency key: a repeated request must equal the first one."""
        if self._passwords is None or "admin_password" in build or request.get_header(IDEMPOTENCY_KEY):
            return
        if self._conductor.takes_passwords():
            build["admin_password"] = self._passwords()

    def _create(self, request: falcon.Request, build: JSONObject) -> AcceptedRequest:
        """:raises errors.FleetError: as the conductor does; naming the field of what is not there"""
        try:
            return self._conductor.create(request, build, request.get_header(IDEMPOTENCY_KEY))
        except errors.NotFound as unknown:
            if unknown.kind not in _NAMED_BY:
                raise
            reason = f"cannot be used: {unknown.message}"
            raise errors.InvalidInput(field=_NAMED_BY[unknown.kind], reason=reason) from None

    @guard.by("compute:servers:get")
    @answers.gives(answers.listed("servers", server_forms.BriefServer))
    @bodies.asks(*server_filters.PARAMETERS)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/servers", server_view.brief)

    @guard.by("compute:servers:get")
    @answers.gives(answers.listed("servers", server_forms.ListedServer))
    @bodies.asks(*server_filters.PARAMETERS)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/servers/detail", server_view.view)

    @guard.by("compute:servers:get")
    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        response.media = {"server": server_view.whole(request, show(self._conductor, request, server_id))}

    @guard.by("compute:servers:update")
    @answers.gives(answers.Answer({"server": server_forms.Server | server_forms.ChangedServer}))
    @bodies.takes(server_change.BODY)
    def on_put_one(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        show(self._conductor, request, server_id)
        changes = server_change.parse(request)
        if changes:
            server_change.change(self._conductor, request, server_id, changes)
        found = show(self._conductor, request, server_id)
        response.media = {"server": server_view.changed(request, found)}

    @guard.by("compute:servers:get")
    @answers.gives(answers.Answer({"addresses": dict[str, list[addresses.PlainAddress]]}))
    def on_get_addresses(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        found = show(self._conductor, request, server_id)["instance"]
        response.media = {"addresses": addresses.plain(found)}

    @guard.by("compute:servers:get")
    @answers.gives(answers.Answer(entire=dict[str, list[addresses.PlainAddress]]))
    def on_get_addresses_in(
        self, request: falcon.Request, response: falcon.Response, server_id: str, network: str
    ) -> None:
        found = addresses.plain(show(self._conductor, request, server_id)["instance"])
        if network not in found:
            raise errors.NotFound(kind=f"Network of server {server_id}", name=network)
        response.media = {network: found[network]}

    @guard.by("compute:servers:get")
    @answers.gives(answers.Answer({"interfaceAttachments": list[addresses.InterfaceShown]}))
    def on_get_interfaces(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        found = show(self._conductor, request, server_id)["instance"]
        response.media = {"interfaceAttachments": addresses.interfaces(found)}

    @guard.by("compute:servers:get")
    @answers.gives(answers.Answer({"security_groups": list[Any]}))
    def on_get_security_groups(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        """None: a fleet has no firewalls. Some tools ask for each server that they show."""
        show(self._conductor, request, server_id)
        response.media = {"security_groups": []}

    @guard.by("compute:servers:delete")
    @answers.gives(answers.NOTHING, 204)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        show(self._conductor, request, server_id)
        self._conductor.terminate(request, server_id)
        response.status = falcon.HTTP_204

    def _list(self, request: falcon.Request, path: str, shown: View) -> JSONObject:
        servers, marker = self._page(request, paging.limit_of(request, self._most), shown)
        failed = {each["id"]: each for each in servers if each.get("status") == "ERROR"}
        faults = self._conductor.operator(request).newest_faults(uuids=list(failed)) if failed else {}
        for uuid, newest in faults.items():
            failed[uuid]["fault"] = server_view.fault(newest)
        answer: JSONObject = {"servers": servers}
        if marker:
            answer["servers_links"] = paging.next_link(request, path, marker)
        return answer

    def _page(self, request: falcon.Request, limit: int, shown: View) -> tuple[list[JSONObject], str | None]:
        """Return at most ``limit`` servers after the marker, oldest first, and at most about MOST_BYTES of them; and the
        marker of the next page, if there is one.
        """
        exact, matches = server_filters.exact(request), server_filters.conditions(request)
        if limit == 0:
            return [], None
        orders = paging.orders(request, server_filters.SORTED_BY, "created_at")
        if any(field in server_filters.NOT_SORTED for field, _direction in orders):
            return self._sorted(request, exact, matches, shown)
        try:
            return self._read(request, limit, shown, exact, matches, orders)
        except errors.VersionPinned:
            if not orders:
                raise
            # A conductor is too old to sort.
            return self._sorted(request, exact, matches, shown)

    def _read(
        self,
        request: falcon.Request,
        limit: int,
        shown: View,
        exact: JSONMapping,
        matches: Sequence[Condition],
        orders: Sequence[tuple[str, str]],
    ) -> tuple[list[JSONObject], str | None]:
        """Read as many servers after the marker as the page has, in parts."""
        # Only what the list shows and the filters look at is read.
        is_brief = shown is server_view.brief and not any(request.has_param(name) for name in server_filters.OF_SPEC)
        calls = self._conductor.operator(request)
        listed: Callable[..., Sequence[Instance]] = calls.list_brief if is_brief else calls.list_instances
        found: list[JSONObject] = []
        marker, size, batch = request.get_param("marker"), 0, parts.FIRST
        sort: JSONObject = {"sort": [list(each) for each in orders]} if orders else {}
        while True:
            more = {**sort, "marker": marker} if marker else sort
            # Without conditions of ours, what is asked for is what is needed, and one more.
            wanted = batch if matches else min(batch, limit + 1 - len(found))
            part, wanted = parts.of(listed, exact, wanted, more)
            for each in part:
                if not all(match(each) for match in matches):
                    continue
                if len(found) == limit or size > MOST_BYTES:
                    return found, found[-1]["id"]
                found.append(shown(request, each))
                size += len(orjson.dumps(found[-1]))
            if len(part) < wanted:
                return found, None
            marker = part[-1]["uuid"]
            batch = parts.following(part)

    def _sorted(
        self, request: falcon.Request, exact: JSONMapping, matches: Sequence[Condition], shown: View
    ) -> tuple[list[JSONObject], str | None]:
        """Return the part of a list in an order that the conductor does not have: all that match are read."""
        calls, found = self._conductor.operator(request), list[Instance]()
        for part in parts.every(calls.list_instances, exact):
            found += [each for each in part if all(match(each) for match in matches)]
        ordered = paging.ordered(request, found, server_filters.SORTED_BY, "created_at")
        cut, is_more = paging.cut(request, ordered, [each["uuid"] for each in ordered], self._most)
        return [shown(request, each) for each in cut], cut[-1]["uuid"] if is_more else None


def show(conductor: Conductor, request: falcon.Request, server_id: str, deleted_too: bool = False) -> JSONMapping:
    """Return the conductor's ``show_instance`` for a complete uuid. Names are refused: clients look them up in the list.

    :param deleted_too: also one that was deleted, as long as its row is kept
    :raises errors.NotFound: there is none, or it was deleted
    """
    if uuidutils.is_uuid_like(server_id):
        found: JSONMapping = conductor.operator(request).show_instance(name=server_id)
        if found["instance"]["uuid"] != server_id or not identity.owns(request, found["instance"]["project_id"]):
            raise errors.NotFound(kind="Instance", name=server_id)
        if deleted_too or not (found["instance"]["deleted"] or found["instance"]["vm_state"] == states.DELETED):
            return found
    raise errors.NotFound(kind="Instance", name=server_id)
