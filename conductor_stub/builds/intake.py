# SPDX-License-Identifier: Apache-2.0
"""Accepts build requests and writes their rows.

From then on the sweeper ends each build that is lost. Called by the modules beside it and those of
:mod:`conductor_stub.operators`.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils

from conductor_stub.builds import waiting
from conductor_stub.builds.acceptance import FIRST_ATTEMPT, Acceptance, insert_all
from conductor_stub.builds.client_token import ClientToken
from conductor_stub.builds.new_rows import instance_rows
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.builds.reserving import Reserved, Reserving
from conductor_stub.builds.unjudged import Unjudged
from conductor_stub.steps import acts
from conductor_stub.steps.client_token import accept_once
from conductor_stub.steps.flavor_check import check_image, requested_hardware
from conductor_stub.steps.group_commit import GroupCommit
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from fleet import errors, states
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import flavors, groups, key_pairs, networks
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts import zones
from fleet.db.instances import builds
from fleet.db.instances.waiting import queued_builds
from fleet.db.tables.catalog import GroupRow
from fleet.hardware.aliases import Aliases
from fleet.json_codec import JSONObject
from fleet.objects import BootData, BuildRequest, Flavor, Zone, network
from fleet.objects.answers.instances import AcceptedRequest
from fleet.telemetry import metrics


class Intake:
    """``create``: validate, write the rows with their deadline, place them here or hand them out.

    :param local: threads of this process that place builds; None: hand out all
    """

    def __init__(
        self,
        database: Database,
        placement: BuildPlacement,
        limits: StepLimits,
        default_zone: str | None,
        clock: Clock = utcnow,
        aliases: Aliases = types.MappingProxyType({}),
        local: LocalPlacement | None = None,
        grouped: Callable[..., GroupCommit[Any, Any]] = GroupCommit,
        waits: Mapping[str, int] = types.MappingProxyType({}),
        reserving: Reserving | None = None,
        unjudged: Unjudged | None = None,
        zone_of_others: str = "nova",
    ) -> None:
        """:param default_zone: of requests that name none; None: any
        :param grouped: makes a group commit; the simulation has its own, because it has no threads
        :param waits: by project, or "*" for any other: how many seconds a request waits for room if it does not say so
        :param unjudged: remarks the parts of a request that no filter judges; None: nothing is remarked
        :param zone_of_others: zone of the hosts that are in no aggregate with a zone
        """
        self._database = database
        self._writes: GroupCommit[Acceptance, AcceptedRequest | None] = grouped(self._write_all, key=Acceptance.key)
        self._placement = placement
        self._limits = limits
        self._default_zone = default_zone or ""
        self._clock = clock
        self._aliases = aliases
        self._local = local or LocalPlacement(0)
        self._waits = waits
        self._reserving = reserving
        self._unjudged = unjudged
        self._zone_of_others = zone_of_others

    def _write_all(self, acceptances: Sequence[Acceptance]) -> Sequence[AcceptedRequest | None | errors.FleetError]:
        return self._database.write(insert_all, acceptances, self._limits.default_quota, self._reserving)

    def accept(
        self, context: RequestContext, request: BuildRequest, client_token: str | None = None
    ) -> AcceptedRequest:
        """Return the instances after they are written.

        :param client_token: a repeated request with the same token gets the answer of the first one
        :raises errors.InvalidInput: naming the field, also of a zone or a forced host that is not there; errors.NotFound: no
            such flavor, group, volume or requested host; errors.Conflict: the token was used for another request, a volume
            is not available, or a network has no free address; errors.QuotaExceeded: errors.VersionPinned: an agent may be
            too old for networks, or a scheduler for a requested node
        """
        token = ClientToken.of(context, request.to_wire(), client_token) if client_token else None
        return accept_once(
            self._database, token.first_answer if token else None, lambda: self._accept(context, request, token)
        )

    def _accept(self, context: RequestContext, request: BuildRequest, token: ClientToken | None) -> AcceptedRequest:
        stored, rows, remarks = self._planned(context, request)
        data = self._boot_data(context, request)
        reserved = self._reserved(context, request, stored)
        plugs = rows[0].get("interfaces", ())
        reservation_id = stored["reservation_id"]
        queued = self._behind(stored, rows[0]) if len(rows) == 1 else None
        if queued is not None:
            held = Acceptance(stored, [_queued_row(rows[0], queued)], token, queued, data, reserved, plugs)
            return _remarked(self._accept_queued(context, held), remarks)
        with self._local.room() as start:
            if start is not None:
                rows = [{**row, "task_state": states.PLACING, "chosen": []} for row in rows]
            first = self._writes.write(Acceptance(stored, rows, token, boot_data=data, volumes=reserved, plugs=plugs))
            if first is not None:
                return first
            flavor_name = rows[0]["flavor_name"] or "(inline)"
            metrics.BUILDS_ACCEPTED.inc(len(rows))
            acts.log(context, "server.create", reservation_id, f"{len(rows)} accepted, flavor {flavor_name}")
            self._go_on(context, stored, rows, start)
        return _remarked(_answer(stored, rows), remarks)

    def _boot_data(self, context: RequestContext, request: BuildRequest) -> BootData | None:
        """:raises errors.NotFound: the user has no such key pair in the project"""
        if not request.key_name and not request.user_data and not request.admin_password:
            return None
        name, owner = request.key_name or "", (context.project_id, context.user_id)
        public_key = self._database.read(key_pairs.find, owner, name).public_key if name else None
        return BootData(name, public_key, request.user_data or "", request.admin_password or "")

    def _reserved(self, context: RequestContext, request: BuildRequest, stored: JSONObject) -> Sequence[Reserved]:
        """The volumes of the request. The stored one has their uuids. :raises: as :meth:`Reserving.plan`"""
        if not request.block_device_mapping or self._reserving is None:
            return ()
        flavor = Flavor(**stored["spec"]["flavor"])
        reserved = self._reserving.plan(context, request.block_device_mapping, flavor)
        stored["spec"]["block_device_mapping"] = [each.to_wire() for each in reserved]
        return reserved

    def _behind(self, stored: JSONObject, row: JSONObject) -> JSONObject | None:
        """Return the resource that the build waits for if one of its shape waits already, so that it does not overtake
        that one.
        """
        accepted = builds.accepted(stored, row)
        until = waiting.wait_until(accepted)
        if until is None:
            return None
        shape = waiting.shape(accepted, together=False)
        times = self._limits.queue_recheck_interval_s, self._limits.queue_patience_s
        return self._database.read(queued_builds.behind, shape, until, *times, row["created_at"])

    def _accept_queued(self, context: RequestContext, acceptance: Acceptance) -> AcceptedRequest:
        first = self._writes.write(acceptance)
        if first is not None:
            return first
        metrics.BUILDS_ACCEPTED.inc()
        acts.log(context, "server.create", acceptance.request["reservation_id"], "1 accepted, waits for room")
        queued = acceptance.queued or {}
        about = context.about(instance_uuid=acceptance.rows[0]["uuid"], attempt=FIRST_ATTEMPT)
        self._placement.announce_queued(about, queued["reason"], queued["message"])
        return _answer(acceptance.request, acceptance.rows)

    def _go_on(
        self,
        context: RequestContext,
        stored: JSONObject,
        rows: list[JSONObject],
        start: Callable[[Callable[[], None]], None] | None,
    ) -> None:
        if start is None:
            self._placement.hand_out(context, [row["uuid"] for row in rows], FIRST_ATTEMPT)
            return
        accepted = [builds.accepted(stored, row) for row in rows]
        self._placement.place_here(context, accepted, FIRST_ATTEMPT, start)

    def plan(self, context: RequestContext, request: BuildRequest) -> tuple[JSONObject, list[JSONObject]]:
        """The rows of the request and of its instances, not written. :raises: as :meth:`accept`"""
        stored, rows, _remarks = self._planned(context, request)
        return stored, rows

    def _planned(
        self, context: RequestContext, request: BuildRequest
    ) -> tuple[JSONObject, list[JSONObject], Sequence[str]]:
        """The rows, as of :meth:`plan`, and what is remarked about the request."""
        if request.availability_zone:
            wanted = Zone.parse(request.availability_zone)
            self._database.read(zones.require_known, wanted, self._zone_of_others)
        if request.requested_host or request.requested_node:
            self._database.read(zones.require_place, request.requested_host, request.requested_node)
        if request.requested_node:
            self._placement.require_requested_node()
        flavor, group = self._resolved(context, request)
        check_image(request.image, flavor)
        now = self._clock()
        reservation_id = f"r-{uuidutils.generate_uuid(dashed=False)[:16]}"
        plugs = self._plugs(context, request)
        named = [network.WantedNetwork(each["network"], each["address"] or None) for each in plugs]
        request = dataclasses.replace(request, networks=named or network.NONE)
        stored = self._stored_request(context, request, flavor, group.uuid if group else None, reservation_id, now)
        rows = instance_rows(context, request, flavor, stored, now, self._limits)
        remarks = self._unjudged.remarks(stored["spec"], group) if self._unjudged else ()
        return stored, [{**row, "interfaces": plugs} for row in rows] if plugs else rows, remarks

    def _plugs(self, context: RequestContext, request: BuildRequest) -> list[JSONObject]:
        """Return the networks of each instance. Its addresses are claimed when the request is accepted."""
        if request.networks == network.NONE:
            return []
        plugs = self._database.read(networks.plugs, request.networks, context.project_id, context.scope)
        if plugs:
            self._placement.require_networks()
        return plugs

    def _resolved(self, context: RequestContext, request: BuildRequest) -> tuple[Flavor, GroupRow | None]:
        if isinstance(request.flavor, Flavor) and not request.group_name:
            return request.flavor, None
        return self._database.read(_resolve, context, request)

    def _stored_request(
        self,
        context: RequestContext,
        request: BuildRequest,
        flavor: Flavor,
        group_uuid: str | None,
        reservation_id: str,
        now: datetime.datetime,
    ) -> JSONObject:
        zone = request.availability_zone or self._default_zone
        hints = dict(request.scheduler_hints)
        if group_uuid:
            hints["group"] = group_uuid
        spec = dataclasses.replace(
            request,
            flavor=flavor,
            availability_zone=zone,
            scheduler_hints=hints,
            wait_for_capacity_s=self._wait_s(context, request) or None,
            user_data=None,
            admin_password=None,
        )
        return {
            "reservation_id": reservation_id,
            "spec": {**spec.to_wire(), **requested_hardware(flavor, request.image, self._aliases)},
            "group_uuid": group_uuid,
            "request_id": context.request_id,
            "created_at": now,
        }

    def _wait_s(self, context: RequestContext, request: BuildRequest) -> int:
        if request.wait_for_capacity_s is not None:
            return request.wait_for_capacity_s
        return self._waits.get(context.project_id or "", self._waits.get("*", 0))


def _answer(stored: JSONObject, rows: Sequence[JSONObject]) -> AcceptedRequest:
    return {
        "reservation_id": stored["reservation_id"],
        "instances": [{"uuid": row["uuid"], "name": row["name"]} for row in rows],
    }


def _remarked(answer: AcceptedRequest, remarks: Sequence[str]) -> AcceptedRequest:
    return {**answer, "warnings": list(remarks)} if remarks else answer


def _queued_row(row: JSONObject, queued: JSONObject) -> JSONObject:
    return {**row, "task_state": states.QUEUED, "step_deadline": None, "deadline": queued["wait_until"]}


def _resolve(connection: Connection, context: RequestContext, request: BuildRequest) -> tuple[Flavor, GroupRow | None]:
    flavor = (
        request.flavor
        if isinstance(request.flavor, Flavor)
        else flavors.find(connection, request.flavor, context.scope)
    )
    group = groups.find(connection, request.group_name, context.scope) if request.group_name else None
    return flavor, group
