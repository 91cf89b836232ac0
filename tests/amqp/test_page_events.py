# SPDX-License-Identifier: Apache-2.0
"""The stream of events on the page: when it is refused, and what a member is offered."""

from __future__ import annotations

from collections.abc import Callable

from tests.amqp.pages import Page, people, people_url

__all__ = ["people", "people_url"]

#: ``[api] event_streams_per_user``
MOST = 4


def test_a_stream_that_is_refused(people: Callable[[str], Page]) -> None:
    """The page has the server's sentence, with the option, and begins when there is room."""
    *others, late = [people("alice") for _tab in range(MOST + 1)]
    for each in others:
        each.open("#events")
        each.expect("#status", "live")
    late.open("#events")
    for place in ("#status", "#events"):
        late.expect(place, f"You follow {MOST} streams of events already ([api] event_streams_per_user).")
    others[0].tab.goto("about:blank")
    late.expect("#status", "live")
    late.gone("#events [role=alert]")
    late.forgive("429")


def test_a_member_is_offered_what_the_stream_has(people: Callable[[str], Page]) -> None:
    """Host events, and acts of administrators, are for administrators."""
    offered = {"alice": ["All", "What failed", "Instances", "Volumes"]}
    offered["root"] = [*offered["alice"], "Hosts", "Acts of administrators"]
    for name, filters in offered.items():
        page = people(name)
        page.open("#events")
        page.expect("#status", "live")
        assert filters == page.tab.locator(".chips button").all_inner_texts()
