# SPDX-License-Identifier: Apache-2.0
"""The scheduler's input for a request that is not made, or for an instance that exists already.

``fleet explain`` asks for it, and so do the plans of balancing and recovery.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Sequence

from conductor_stub.builds.intake import Intake
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.moves import ways
from conductor_stub.moves.ways import Ways
from fleet import errors, move_states
from fleet.context import RequestContext
from fleet.db.engine import claimed
from fleet.db.engine.database import Connection, Database
from fleet.db.instances import builds, instances, moves
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import BuildRequest, Holding
from fleet.objects.answers.instances import SchedulingRequest, SchedulingRequestOf


class DryRun:
    """Returns ``request_spec`` and ``filter_properties``, which the client sends to the scheduler's ``explain``."""

    def __init__(self, database: Database, intake: Intake, placement: BuildPlacement) -> None:
        self._database = database
        self._intake = intake
        self._placement = placement

    def request_of(self, name: str) -> SchedulingRequest:
        """Return the request of a first attempt to place this instance now. ``holding`` in the spec is its present claim.

        :raises errors.NotFound: errors.Conflict:
        """
        row = self._database.read(instances.find, name)
        return self._request(row)

    def requests_of(self, uuids: Sequence[str], live: bool = False) -> list[SchedulingRequestOf]:
        """:meth:`request_of` each of these instances that exist, with ``uuid``. Hosts that do not reach its volumes, or its
        disks, are left out. So is an instance whose request cannot be read: the plans and proofs of all others go on.

        :param live: for a move, while the guest runs if it can; otherwise for the loss of its host
        """

        def read(connection: Connection) -> list[tuple[RequestedInstance, Sequence[str], JSONObject]]:
            rows = instances.of_uuids(connection, uuids)
            way, former = ways.of_rows(connection, rows), moves.not_cleaned(connection, uuids)
            return [(row, *_restrictions(row, way, live, former.get(row.uuid, ()))) for row in rows]

        found: list[SchedulingRequestOf] = []
        for row, left_out, more in self._database.read(read):
            with contextlib.suppress(errors.RequestUnreadable):
                # The host that was requested for the build does not bind its moves.
                request = self._request(row, left_out, {"requested_destination": None, **more})
                found.append({"uuid": row.uuid, **request})
        return found

    def _request(
        self, row: RequestedInstance, left_out: Sequence[str] = (), more: JSONMapping = types.MappingProxyType({})
    ) -> SchedulingRequest:
        found = self._placement.scheduling_request([row])
        spec = {**found["request_spec"], "holding": _holding(row).to_wire()}
        properties = {**found["filter_properties"], **more}
        if left_out:
            properties["ignore_hosts"] = [*(properties.get("ignore_hosts") or ()), *left_out]
        return {"request_spec": spec, "filter_properties": properties}

    def request_for(self, context: RequestContext, request: BuildRequest) -> SchedulingRequest:
        """Return the scheduler's input for this request. :raises errors.InvalidInput: errors.NotFound: as ``create`` does"""
        stored, rows = self._intake.plan(context, request)
        return self._placement.scheduling_request([builds.accepted(stored, row) for row in rows])


def _holding(row: RequestedInstance) -> Holding:
    """Return the resources that the instance holds.

    If no host has claimed it, only its uuid: the scheduler may have a booking for it.
    """
    if row.host is None:
        return Holding(row.uuid)
    return Holding(row.uuid, row.host, row.node, claimed.of(row))


def _restrictions(
    row: RequestedInstance, way: Ways, live: bool, former: Sequence[str]
) -> tuple[Sequence[str], JSONObject]:
    """Return hosts that the instance cannot move to, and what is asked of the others, as for its move.

    Its present host is none of them: a plan may bring it back there when it has left.

    :param former: hosts that have not removed the guest which it left there
    """
    properties: JSONObject = {}
    if live and not way.obstacle(row):
        left_out, properties = way.others(row), way.cpu_properties(row)
    else:
        apart = way.apart(row, move_states.RESIZE if live else move_states.EVACUATION)
        if apart is None:
            properties = {"requested_destination": {"host": row.host}}
        left_out = [*(apart or ()), *way.lacking(row)]
    return sorted({*left_out, *former} - {row.host}), properties
