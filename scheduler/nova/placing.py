# SPDX-License-Identifier: Apache-2.0
"""Answers one request: choose hosts, claim them, and choose again where a claim is refused.

Called by the modules beside it and those of :mod:`scheduler.nova.shadow`.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONMapping
from fleet.objects import Aggregate, Place, Selection
from scheduler.compute.domain import aggregate_metadata
from scheduler.compute.drivers.driver import Scheduler
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.table import Key
from scheduler.nova.answer import Found
from scheduler.nova.candidates import CandidateQuery
from scheduler.nova.claims import Claims, allocation
from scheduler.nova.domain import CELL, NODE_UUID
from scheduler.nova.placement import Placement
from scheduler.nova.polling import Polled
from scheduler.nova.providers import ProviderNotes
from scheduler.nova.refusals import Refusals
from scheduler.nova.request import Call, NovaRequest
from scheduler.nova.request_filters import RequestFilters
from scheduler.nova.resource_request import MAIN

#: A request ends after so many refused nodes: then placement and nova's databases do not agree.
MOST_REFUSALS = 100
#: After so many refused nodes placement is asked which ones it offers.
_ASK_AFTER = 3
#: A request that finds no host reads placement's usage at most so often, in seconds.
_LOOK_AGAIN_S = 1.0
#: Candidates that are asked for, as nova's max_placement_results.
_CANDIDATES = 1000


#: A host, what was known of its node when it was chosen, and the allocation request that was claimed on it.
_Taken = tuple[Selection, Found, JSONMapping | None]


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
    :param refusals: nodes for which placement refuses every request
    :param request_filters: by the options of nova's section [scheduler]
    :param most_candidates: most candidates that placement is asked for
    :param pcpu_fallback: offer hosts without PCPU for dedicated CPUs
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
        request_filters: RequestFilters | None = None,
        most_candidates: int = _CANDIDATES,
        pcpu_fallback: bool = True,
    ) -> None:
        self._driver = driver
        self._placement = placement
        self._alternates = alternates
        self._zone = zone
        self._refusals = refusals or Refusals()
        self._notes = notes
        self._request_filters = request_filters or RequestFilters()
        self._candidates = CandidateQuery(driver.host_manager, most_candidates, pcpu_fallback)
        #: Held while what is taken is read, by the first of the requests that find no host.
        self._looking = threading.Lock()
        self._looked_at = self._looked_until = -_LOOK_AGAIN_S

    def place(self, context: RequestContext, call: Call) -> Placed:
        """:raises errors.FleetError: nothing is claimed or booked then"""
        request = self.prepared(call.request)
        claims = None
        if self._placement is not None and call.named:
            owner = request.instance.project_id or context.project_id, request.instance.user_id or context.user_id
            claims = Claims(self._placement, request, *(str(each or "unknown") for each in owner))
        try:
            made: list[_Taken]
            if claims is None:
                made = [(selection, node, None) for selection, node in self._chosen(context, request)]
            else:
                made, request = self._claimed(context, request, claims)
            answer = self._answer(made, None if self._placement is None else request, call.return_alternates)
        except BaseException:
            if claims is not None:
                claims.give_back()
            self._driver.host_manager.release(request.instance_uuids)
            raise
        return Placed(answer, [selection for selection, _node, _allocation in made])

    def unclaimed(self, selections: Sequence[Selection]) -> Placed:
        """Return an answer that asks nova to claim nothing. :raises errors.NoValidHost: a node is not known any more"""
        known, lost = self._known(selections)
        if lost:
            raise errors.NoValidHost(reason=f"Host {lost[0][0]} has left its cell.")
        return Placed(self._answer([(*each, None) for each in known], None, False), selections)

    def prepared(self, request: NovaRequest) -> NovaRequest:
        """Apply the request filters, and ask placement for facts that the columns of the hosts do not have.

        :raises errors.NoValidHost: placement offers nothing, or a request filter refuses the request
        :raises errors.InvalidInput: placement refuses the query
        """
        self._driver.refresh()
        aggregates = self._driver.host_manager.consider(_aggregates)
        request = self._request_filters.apply(request, aggregates, self._notes.traits if self._notes else None)
        if self._needs_candidates(request):
            if self._placement is None:
                raise errors.InvalidInput(field="resources", reason="need placement, and [nova] placement is off")
            return self._candidates.offered(self._placement, request)
        if self._notes is not None or not (request.required_traits or request.forbidden_traits):
            return request  # ProviderFilter judges them
        if self._placement is None:
            raise errors.InvalidInput(field="traits", reason="cannot be looked up while [nova] placement is off")
        providers = self._placement.providers_with(request.required_traits, request.forbidden_traits)
        return dataclasses.replace(request, providers=providers)

    def _needs_candidates(self, request: NovaRequest) -> bool:
        """Return True if more than the compute node's own inventories decide, or these are not known."""
        wanted = request.wanted
        if wanted is None:
            return False
        if self._notes is None:
            return wanted.overridden or not wanted.is_plain
        return not wanted.is_plain or not self._notes.elsewhere.isdisjoint(wanted.main.resources)

    def _claimed(
        self, context: RequestContext, request: NovaRequest, claims: Claims
    ) -> tuple[list[_Taken], NovaRequest]:
        """Choose and claim, until every instance has a host. What was claimed stays booked meanwhile.

        Return the request, too, with the offers of placement if it was asked for them.
        """
        taken: dict[str, _Taken] = {}
        refused: list[Key] = []
        named = restriction.is_forced(request) or request.requested_hosts
        left_out = () if named else self._refusals.nodes()
        asked = request.offered is not None
        while missing := [uuid for uuid in request.instance_uuids if uuid not in taken]:
            rest = dataclasses.replace(
                request,
                num_instances=len(missing),
                instance_uuids=tuple(missing),
                ignore_nodes=(*request.ignore_nodes, *refused, *left_out),
            )
            try:
                chosen = self._chosen(context, rest)
            except errors.NoValidHost as refusal:
                if not left_out:
                    raise _after(refusal, refused) from None
                left_out = ()  # placement may know them by now
                continue
            for uuid, (selection, node) in zip(missing, chosen, strict=True):
                if _key(selection) in refused:
                    continue
                is_new = uuid not in claims.found
                if (allocated := claims.claim(uuid, node.node_uuid, request.offered)) is not None:
                    taken[uuid] = selection, node, allocated
                elif is_new and uuid in claims.found:
                    if (kept := self._kept(context, rest, uuid, claims.found[uuid])) is not None:
                        taken[uuid] = kept
                else:
                    refused.append(_key(selection))
                    if node.node_uuid in claims.unknown:
                        self._refusals.add(_key(selection), node.node_uuid)
            if len(refused) >= _ASK_AFTER and not asked:
                request, asked = self._within_candidates(request, refused), True
            if len(refused) > MOST_REFUSALS:
                raise errors.NoValidHost(reason=f"Placement refused claims on {len(refused)} nodes that looked free.")
        return [taken[uuid] for uuid in request.instance_uuids], request

    def _kept(self, context: RequestContext, request: NovaRequest, uuid: str, held: JSONMapping) -> _Taken | None:
        """Choose the node on which a new instance holds an allocation; None if the request does not allow that node.

        The broker has delivered the request twice, or the answer to a claim was lost: the instance may be on that node, and
        has its room there.
        """
        allocations = {provider: {"resources": each["resources"]} for provider, each in held.items()}
        offers: dict[str, list[JSONMapping]] = {}
        for node_uuid in held:
            alike = [each for each in (request.offered or {}).get(node_uuid, ()) if each["allocations"] == allocations]
            if not alike and (request.wanted is None or request.wanted.groups.keys() <= {MAIN}):
                alike = [{"allocations": allocations, "mappings": {MAIN: sorted(held)}}]
            if alike:
                offers[node_uuid] = alike
        one = dataclasses.replace(request, num_instances=1, instance_uuids=(uuid,), offered=offers)
        try:
            ((selection, node),) = self._chosen(context, one)
        except errors.NoValidHost:
            return None
        return selection, node, offers[node.node_uuid][0]

    def _chosen(self, context: RequestContext, request: NovaRequest) -> Sequence[tuple[Selection, Found]]:
        """Choose hosts, and return them with the facts of their nodes. A node that has left the cache is refused."""
        gone: list[Key] = []
        while len(gone) <= MOST_REFUSALS:
            rest = dataclasses.replace(request, ignore_nodes=(*request.ignore_nodes, *gone))
            known, lost = self._known(self._decided(context, rest))
            if not lost:
                return known
            gone += lost
        raise errors.NoValidHost(reason=f"{len(gone)} nodes have left their cells after they were chosen.")

    def _decided(self, context: RequestContext, request: NovaRequest) -> Sequence[Selection]:
        """Choose hosts. If there are none, read what has been given back in placement, and choose again."""
        began = time.monotonic()
        try:
            return self._driver.select_destinations(context, request)
        except errors.NoValidHost:
            if not self._has_looked(began):
                raise
        return self._driver.select_destinations(context, request)

    def _has_looked(self, began: float) -> bool:
        """Read the used amounts, at most once in :data:`_LOOK_AGAIN_S`. Return False if that would show nothing new.

        Requests that fail at the same time share one reading: the others wait for it.

        :param began: when the request was decided, in seconds of the monotonic clock
        """
        if self._notes is None:
            return False
        with self._looking:
            now = time.monotonic()
            if self._looked_until >= began:
                # What it was decided by has been read anew meanwhile.
                return True
            if now - self._looked_at < _LOOK_AGAIN_S:
                return False
            self._looked_at = now
            self._notes.usage_wanted += 1
            host_manager = self._driver.host_manager
            assert isinstance(host_manager, Polled)
            host_manager.poll()
            self._looked_until = time.monotonic()
        return True

    def _within_candidates(self, request: NovaRequest, refused: Sequence[Key]) -> NovaRequest:
        """Return the request for the hosts only that placement offers: it knows more of their room than nova's rows."""
        assert self._placement is not None
        if request.wanted is None or not request.wanted.main.resources:
            return request
        try:
            return self._candidates.offered(self._placement, request)
        except errors.NoValidHost as refusal:
            raise _after(refusal, refused) from None

    def _known(self, selections: Sequence[Selection]) -> tuple[list[tuple[Selection, Found]], list[Key]]:
        """Return the selections with what is known of their nodes, and the nodes that are not known any more."""
        found = self._look_up({_key(each) for each in selections})
        lost = [_key(each) for each in selections if _key(each) not in found]
        return [(each, found[_key(each)]) for each in selections if _key(each) in found], lost

    def _answer(self, made: Sequence[_Taken], request: NovaRequest | None, with_alternates: bool) -> list[list[Found]]:
        """Return the hosts in nova's terms. Alternates are of the chosen host's cell, and none of the request's hosts.

        :param request: None to answer without allocation requests
        """
        chosen = {_key(each) for each, _node, _allocation in made}
        known = self._look_up({_key(place) for each, _node, _allocation in made for place in each.alternates})
        answer = []
        for each, node, allocated in made:
            first = _complete(node, each, request, allocated)
            others = [
                _complete(known[_key(place)], place, request)
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


def _complete(
    known: Found, place: Selection | Place, request: NovaRequest | None, claimed: Mapping[str, object] | None = None
) -> Found:
    if request is None:
        return dataclasses.replace(known, limits=place.limits or {})
    if claimed is None:
        offered = None if request.offered is None else request.offered.get(known.node_uuid)
        claimed = offered[0] if offered else allocation(request, known.node_uuid)
    return dataclasses.replace(known, limits=place.limits or {}, request=claimed)


def _aggregates(hosts: Candidates, _state: StateAge) -> list[Aggregate]:
    return hosts.all_aggregates()


def _key(place: Selection | Place) -> Key:
    return place.host, str(place.nodename)


def _after(refusal: errors.NoValidHost, refused: Sequence[Key]) -> errors.NoValidHost:
    """Return the refusal with the hosts of the nodes that placement has refused before."""
    if not refused:
        return refusal
    hosts = list(dict.fromkeys(host for host, _node in refused))
    said = f"{refusal.reason} Placement refused claims on {', '.join(hosts[:5])}"
    more = f" and {len(hosts) - 5} more" if len(hosts) > 5 else ""
    return errors.NoValidHost(reason=f"{said}{more}.", details=refusal.details)
