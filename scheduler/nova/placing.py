# SPDX-License-Identifier: Apache-2.0
"""Answers one request: choose hosts, claim them, and choose again where a claim is refused."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import Place, Selection
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.drivers.driver import Scheduler
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.table import Key
from scheduler.nova.answer import Found
from scheduler.nova.claims import Claims, resources_of
from scheduler.nova.domain import CELL, NODE_UUID
from scheduler.nova.placement import Placement
from scheduler.nova.polling import Polled
from scheduler.nova.providers import ProviderNotes
from scheduler.nova.refusals import Refusals
from scheduler.nova.request import Call, NovaRequest

#: A request ends after so many refused hosts: then placement and nova's databases do not agree.
MOST_REFUSALS = 100
#: After so many refused hosts placement is asked which ones it offers.
_ASK_AFTER = 3
#: A request that finds no host reads placement's usage at most so often, in seconds.
_LOOK_AGAIN_S = 1.0
#: Candidates that are asked for then, as nova's max_placement_results.
_CANDIDATES = 1000


@dataclasses.dataclass(frozen=True)
class Placed:
    """The answer for one request, and the selections that are logged."""

    found: Sequence[Sequence[Found]]
    selections: Sequence[Selection]


class Placing:
    """Several threads call it.

    :param placement: None to claim nothing
    :param alternates: most alternates of an instance
    :param zone: zone of hosts without one
    :param refusals: hosts that placement refuses, whoever asks
    :param notes: what other providers than compute nodes offer; None if placement's database is not read
    """

    def __init__(
        self,
        driver: Scheduler,
        placement: Placement | None,
        alternates: int,
        zone: str,
        refusals: Refusals | None = None,
        notes: ProviderNotes | None = None,
    ) -> None:
        self._driver = driver
        self._placement = placement
        self._alternates = alternates
        self._zone = zone
        self._refusals = refusals or Refusals()
        self._notes = notes
        self._looked_at = -_LOOK_AGAIN_S

    def place(self, context: RequestContext, call: Call) -> Placed:
        """:raises errors.FleetError: nothing is claimed or booked then"""
        request = self.with_traits(call.request)
        claims = None
        if self._placement is not None and call.named:
            owner = request.instance.project_id or context.project_id, request.instance.user_id or context.user_id
            claims = Claims(self._placement, request, *(str(each or "unknown") for each in owner))
        if claims is None:
            selections = list(self._chosen(context, request))
        else:
            try:
                selections = self._claimed(context, request, claims)
            except BaseException:
                claims.give_back()
                self._driver.host_manager.release(request.instance_uuids)
                raise
        resources = resources_of(request) if self._placement is not None else None
        return Placed(self._answer(selections, resources, call.return_alternates), selections)

    def unclaimed(self, selections: Sequence[Selection]) -> Placed:
        """Return an answer that asks nova to claim nothing."""
        return Placed(self._answer(selections, None, False), selections)

    def with_traits(self, request: NovaRequest) -> NovaRequest:
        """Look up the compute nodes with the traits that the request asks for. :raises errors.InvalidInput:"""
        if self._notes is not None or not (request.required_traits or request.forbidden_traits):
            return request  # ProviderFilter judges them
        if self._placement is None:
            raise errors.InvalidInput(field="traits", reason="cannot be looked up while [nova] placement is off")
        providers = self._placement.providers_with(request.required_traits, request.forbidden_traits)
        return dataclasses.replace(request, providers=providers)

    def _claimed(self, context: RequestContext, request: NovaRequest, claims: Claims) -> list[Selection]:
        """Choose and claim, until every instance has a host. What was claimed stays booked meanwhile."""
        taken: dict[str, Selection] = {}
        refused: list[str] = []
        named = restriction.is_forced(request) or request.requested_hosts
        left_out = () if named else self._refusals.hosts()
        asked = False
        while missing := [uuid for uuid in request.instance_uuids if uuid not in taken]:
            rest = dataclasses.replace(
                request,
                num_instances=len(missing),
                instance_uuids=tuple(missing),
                ignore_hosts=(*request.ignore_hosts, *refused, *left_out),
            )
            try:
                selections = self._chosen(context, rest)
            except errors.NoValidHost as refusal:
                if not left_out:
                    raise _after(refusal, refused) from None
                left_out = ()  # placement may know them by now
                continue
            uuids = self._node_uuids(selections)
            for uuid, selection in zip(missing, selections, strict=True):
                if selection.host in refused:
                    continue
                node_uuid = uuids[_key(selection)]
                if claims.claim(uuid, node_uuid):
                    taken[uuid] = selection
                else:
                    refused.append(selection.host)
                    if node_uuid in claims.unknown:
                        self._refusals.add(selection.host, node_uuid)
            if len(refused) >= _ASK_AFTER and not asked:
                request, asked = self._within_candidates(request), True
            if len(refused) > MOST_REFUSALS:
                raise errors.NoValidHost(reason=f"Placement refused claims on {len(refused)} hosts that looked free.")
        return [taken[uuid] for uuid in request.instance_uuids]

    def _chosen(self, context: RequestContext, request: NovaRequest) -> Sequence[Selection]:
        """Choose hosts. If there are none, read what has been given back in placement, and choose again."""
        try:
            return self._driver.select_destinations(context, request)
        except errors.NoValidHost:
            if not self._is_worth_a_look():
                raise
        host_manager = self._driver.host_manager
        assert isinstance(host_manager, Polled)
        host_manager.poll()
        return self._driver.select_destinations(context, request)

    def _is_worth_a_look(self) -> bool:
        """Ask the feed to read what is taken, at most once in :data:`_LOOK_AGAIN_S`."""
        now = time.monotonic()
        if self._notes is None or now - self._looked_at < _LOOK_AGAIN_S:
            return False
        self._looked_at = now
        self._notes.usage_wanted += 1
        return True

    def _within_candidates(self, request: NovaRequest) -> NovaRequest:
        """Return the request for the hosts only that placement offers: it knows more of their room than nova's rows."""
        assert self._placement is not None
        resources = resources_of(request)
        if not resources:
            return request
        traits = request.required_traits, request.forbidden_traits
        offered = self._placement.candidates(resources, *traits, most=_CANDIDATES)
        known = offered if request.providers is None else offered & request.providers
        return dataclasses.replace(request, providers=known)

    def _node_uuids(self, selections: Sequence[Selection]) -> dict[Key, str]:
        found = self._look_up({_key(each) for each in selections})
        return {key: each.node_uuid for key, each in found.items()}

    def _answer(
        self, selections: Sequence[Selection], resources: dict[str, int] | None, with_alternates: bool
    ) -> list[list[Found]]:
        """Return the hosts in nova's terms. Alternates are of the chosen host's cell, and none of the request's hosts."""
        chosen = {_key(each) for each in selections}
        known = self._look_up(chosen | {_key(place) for each in selections for place in each.alternates})
        answer = []
        for each in selections:
            first = _complete(known[_key(each)], each, resources)
            others = [
                _complete(known[_key(place)], place, resources)
                for place in each.alternates
                if _key(place) in known and _key(place) not in chosen
            ]
            alike = [other for other in others if other.cell_uuid == first.cell_uuid]
            answer.append([first, *(alike[: self._alternates] if with_alternates else ())])
        return answer

    def _look_up(self, keys: Iterable[Key]) -> dict[Key, Found]:
        """Return uuid, cell and zone of these nodes, as far as they are known."""

        def work(hosts: Candidates, state: StateAge) -> dict[Key, Found]:
            rows = {key: row for key in keys for row in [hosts.row_of(key)] if row is not None}
            return {key: self._found(hosts, key, row) for key, row in rows.items()}

        return self._driver.host_manager.consider(work)

    def _found(self, hosts: Candidates, key: Key, row: int) -> Found:
        zones = aggregate_metadata.split_values(hosts.aggregates(row), "availability_zone")
        zone = min(zones, default=self._zone)
        return Found(*key, hosts.object(row, NODE_UUID), hosts.shared(row, CELL), zone)


def _complete(known: Found, place: Selection | Place, resources: dict[str, int] | None) -> Found:
    return dataclasses.replace(known, limits=place.limits or {}, resources=resources)


def _key(place: Selection | Place) -> Key:
    return place.host, str(place.nodename)


def _after(refusal: errors.NoValidHost, refused: Sequence[str]) -> errors.NoValidHost:
    """Return the refusal with the hosts that placement has refused before."""
    if not refused:
        return refusal
    said = f"{refusal.reason} Placement refused claims on {', '.join(refused[:5])}"
    more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
    return errors.NoValidHost(reason=f"{said}{more}.", details=refusal.details)
