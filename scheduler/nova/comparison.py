# SPDX-License-Identifier: Apache-2.0
"""The hosts that pass for given requests here, beside those that placement offers, or that pass nova's own filters.

:mod:`scheduler.nova.check` prints them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from fleet import errors
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.context import new_context
from fleet.json_codec import JSONMapping
from scheduler.compute.drivers.driver import Scheduler
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.nova import decoder
from scheduler.nova.candidates import CandidateQuery
from scheduler.nova.domain import NODE_UUID
from scheduler.nova.nova_filters import NovaFilters
from scheduler.nova.placement import Placement
from scheduler.nova.request import NovaRequest, Offers

_NAMED = 5


@dataclasses.dataclass(frozen=True)
class _Compared:
    """A request with what placement offers, and what the filters here found."""

    server: str
    spec: object
    offered: Offers
    explained: JSONMapping


def compare(
    driver: Scheduler, placement: Placement, requests: Sequence[tuple[str, object]], nova: NovaFilters | None
) -> Iterator[Finding]:
    """:param requests: (uuid of the server, its RequestSpec as nova stores it)"""
    host_of = providers(driver)
    query = CandidateQuery(driver.host_manager, None)
    compared: list[_Compared] = []
    for server, spec in requests:
        try:
            request = decoder.decode({"spec_obj": spec, "instance_uuids": [server]}).request
            asked, offered = _offered(query, placement, request)
            explained = driver.explain(new_context(), asked, max(len(host_of), 1))
        except errors.FleetError as refusal:
            yield findings.doubtful("requests", f"{server} would be refused: {refusal.message}", "See docs/nova.md.")
            continue
        known = {provider: each for provider, each in offered.items() if provider in host_of}
        compared.append(_Compared(server, spec, known, explained))
    passing = nova.passing([(each.spec, each.offered) for each in compared]) if nova else None
    same = 0
    for number, each in enumerate(compared):
        theirs = {host_of[provider] for provider in (passing[number] if passing else each.offered)}
        ours = {score["host"] for score in each.explained["scores"]}
        if theirs == ours:
            same += 1
        else:
            yield _difference(each, theirs - ours, ours - theirs, passing is not None)
    whose = "that pass nova's filters" if nova else "that placement offers"
    yield findings.good("requests", f"{same} requests have the candidates {whose}")


def _offered(query: CandidateQuery, placement: Placement, request: NovaRequest) -> tuple[NovaRequest, Offers]:
    """Return the request as it is decided here, and what placement offers for it."""
    try:
        within = query.offered(placement, request)
    except errors.NoValidHost:
        return request, {}
    is_plain = request.wanted is not None and request.wanted.is_plain and not request.wanted.overridden
    return request if is_plain else within, within.offered or {}


def providers(driver: Scheduler) -> dict[str, str]:
    """Return provider → host, of all compute nodes."""

    def work(hosts: Candidates, state: StateAge) -> dict[str, str]:
        return {hosts.object(row, NODE_UUID): hosts.key(row)[0] for row in hosts.rows[hosts.present()].tolist()}

    return driver.host_manager.consider(work)


def _difference(compared: _Compared, theirs: set[str], ours: set[str], filtered: bool) -> Finding:
    counts = {each["name"]: each["start"] - each["end"] for each in compared.explained["filters"]}
    dropped = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    parts = []
    if theirs:
        parts.append(f"filters here drop {_few(sorted(theirs))}" + (f" ({dropped})" if dropped else ""))
    if ours:
        refused = "placement and nova's filters refuse" if filtered else "placement does not offer"
        parts.append(f"{refused} {_few(sorted(ours))}")
    fix = "Compare the filters."
    if not filtered:
        fix += " nova's own are run with --nova-python. A claim that placement refuses means the next host."
    return findings.doubtful("requests", f"{compared.server}: {'; '.join(parts)}", fix)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
