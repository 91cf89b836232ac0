# SPDX-License-Identifier: Apache-2.0
"""Balancing and maintenances on the page. The conductor's answers about them are the test's."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright import sync_api

from tests.amqp.pages import PATIENCE_MS, Page, open_url, page

__all__ = ["open_url", "page"]

LONG_AGO = "2026-01-01T00:00:00.000Z"


class Upkeep:
    """What conductors do, by name; ``calls`` are the page's others."""

    def __init__(self, page: Page) -> None:
        self.maintenances: list[dict[str, Any]] = []
        self.hosts: dict[str, list[dict[str, Any]]] = {}
        self.estimate: dict[str, int] | None = None
        self.balances: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        page.tab.route(
            re.compile(r"/fleet/v1/calls/operator/\w*(maintenance|balance)\w*$"), lambda route: self._answer(route)
        )

    def _answer(self, route: sync_api.Route) -> None:
        method, given = route.request.url.rpartition("/")[2], route.request.post_data_json["arguments"]
        result: Any = None
        if method == "list_maintenances":
            result = self.maintenances[: given["limit"]]
        elif method == "show_maintenance":
            known = [each for each in self.maintenances if given["name"] in (each["uuid"], each["name"])]
            if not known:
                said = {"error": "NotFound", "message": f"Maintenance {given['name']} could not be found"}
                route.fulfill(status=404, body=json.dumps(said), content_type="application/json")
                return
            hosts = self.hosts.get(known[0]["name"], [])
            result = {"maintenance": known[0], "hosts": hosts, "estimate": self.estimate}
        elif method == "list_balances":
            result = self.balances
        else:
            self.calls.append((method, given))
        route.fulfill(status=200, body=json.dumps({"result": result}), content_type="application/json")

    def maintain(self, name: str, *hosts: dict[str, Any], **more: object) -> dict[str, Any]:
        made = {"uuid": f"of {name}", "name": name, "status": "running", "paused": False, "wave": 2, "waves": 2}
        self.maintenances.append({**made, "ended_at": None, "created_at": LONG_AGO, **more})
        self.hosts[name] = list(hosts)
        return self.maintenances[-1]

    def balance(self, aggregate: str, **more: object) -> None:
        kept = {"aggregate": aggregate, "mode": "confirm", "paused": False, "looked_at": None, "hot_since": {}}
        self.balances.append({**kept, "last": None, **more})


def host(name: str, wave: int, status: str, ended: str | None = None, problem: str | None = None) -> dict[str, Any]:
    times = {"began_at": LONG_AGO, "emptied_at": None, "worked_at": None, "ended_at": ended}
    return {"host": name, "wave": wave, "status": status, "attempt": 1, "problem": problem, **times}


@pytest.fixture
def upkeep(page: Page) -> Upkeep:
    return Upkeep(page)


def focused(page: Page) -> str:
    return str(page.tab.evaluate("document.activeElement.closest('section')?.querySelector('h3')?.textContent ?? ''"))


def drawn(page: Page, text: str) -> None:
    """Wait until the next answer is shown."""
    sync_api.expect(page.tab.get_by_text(text).first).to_be_visible(timeout=PATIENCE_MS)


def test_the_focus_stays_with_its_maintenance_and_aggregate(page: Page, upkeep: Upkeep) -> None:
    """Others have buttons with the same text, and come and go; also while the question of a button is open."""
    upkeep.maintain("second", host("h1", 2, "draining"))
    upkeep.balance("warm")
    page.open("#upkeep")
    buttons = ("second", "Pause"), ("warm", "What would be done now"), ("warm", "Pause")
    for number, (of, button) in enumerate(buttons):
        section = page.tab.locator("section", has=page.tab.locator("h3", has_text=of)).last
        section.get_by_role("button", name=button, exact=True).focus()
        upkeep.maintenances.insert(0, {**upkeep.maintenances[0], "uuid": f"u{number}", "name": f"first {number}"})
        upkeep.balance(f"a hot one {number}")
        upkeep.balances.reverse()
        drawn(page, f"first {number}")
        drawn(page, f"a hot one {number}")
        assert focused(page).startswith(of)
        assert button == page.tab.evaluate("document.activeElement.textContent")
    page.tab.keyboard.press("Enter")
    page.expect("dialog h2", "Pause balancing of warm")
    upkeep.balance("one more")
    drawn(page, "one more")
    page.tab.keyboard.press("Escape")
    page.count("dialog", 0)
    assert focused(page).startswith("warm")


def test_a_button_that_cannot_be_told_from_others_gets_no_focus(page: Page) -> None:
    """A place is drawn anew: a text that two buttons share names neither."""
    page.open("#upkeep")
    page.expect("main h1", "Upkeep")
    found = page.tab.evaluate("""async () => {
      const { el, put } = await import(`${location.origin}/ui/base/dom.js`);
      const place = el("div");
      document.body.append(place);
      const focused = (before, after, which) => {
        const button = (text) => el("button", {}, text);
        put(place, before.map(button));
        place.children[which].focus();
        put(place, after.map(button));
        return document.activeElement.textContent;
      };
      return [focused(["a", "b"], ["new", "a", "b"], 1), focused(["a", "a"], ["new", "a", "a"], 1) === "a",
              focused(["a"], ["a", "a"], 0) === "a"];
    }""")
    assert ["b", False, False] == found


def test_more_maintenances_than_a_page_lists(page: Page, upkeep: Upkeep) -> None:
    """All that have not ended are shown; of the ended ones ten, and the one that the address names."""
    for number in range(12):
        upkeep.maintain(f"going-{number}", host("h1", 2, "draining"))
    upkeep.hosts["going-11"] = [host("h9", 2, "failed", problem="the hook failed")]
    for number in range(15):
        upkeep.maintain(f"over-{number:02}", status="ended", wave=0, ended_at=LONG_AGO)
    page.open("#upkeep/over-13")
    page.expect("#status", "12 maintenances under way")
    page.expect("#maintenances", "the hook failed")
    page.count("#maintenances section", 13)
    page.expect("#maintenances section:last-of-type h3", "over-13")
    page.count("#maintenances > p a", 10)


def test_a_maintenance_that_ended_long_ago(page: Page, upkeep: Upkeep) -> None:
    """It is asked for by its name; an unknown one is told in the server's words."""
    for number in range(15):
        upkeep.maintain(f"over-{number:02}", host("h1", 1, "done", LONG_AGO), status="ended", wave=0, ended_at=LONG_AGO)
    page.open("#upkeep/over-14")
    page.expect("#maintenances section", re.compile("over-14.*ended.*h1.*done", re.DOTALL))
    page.open("#upkeep/nosuch")
    page.expect("#maintenances [role=alert]", "Maintenance nosuch could not be found")
    page.count("#maintenances > p a", 10)
    page.forgive("404")


def test_a_host_that_has_failed(page: Page, upkeep: Upkeep) -> None:
    """It is tried again without a pause. The buttons come before the hosts, which may be many."""
    upkeep.maintain("kernel", host("h1", 2, "failed", problem="exit status 3"), host("h2", 2, "draining"))
    page.open("#upkeep")
    page.press("Try failed hosts again")
    page.expect("dialog", "waited for: h1.")
    page.answer("Try again")
    page.count("dialog", 0)
    assert [("pause_maintenance", {"name": "of kernel", "paused": False})] == upkeep.calls
    page.count("#maintenances .verbs + table", 1)


def test_the_time_that_is_left(page: Page, upkeep: Upkeep) -> None:
    """As the conductor estimates it; and the guests that are left on a host that is drained."""
    before = host("h1", 1, "done", "2026-01-01T00:10:00.000Z")
    drained = {**host("h2", 2, "draining", problem="web cannot move"), "guests": {"left": 9, "total": 13, "moving": 4}}
    upkeep.maintain("kernel", before, drained)
    upkeep.estimate = {"left_s": 0, "wave_s": 600, "wave_gone_s": 700}
    page.open("#upkeep")
    page.expect("#maintenances", "1 of 2 hosts done, the wave takes longer than expected (10 min).")
    page.expect("#maintenances", "9 of 13 guests still there, 4 moving; web cannot move")
    upkeep.estimate = {"left_s": 600, "wave_s": 600, "wave_gone_s": 0}
    page.expect("#maintenances", "1 of 2 hosts done, about 10 min left.")
    upkeep.estimate = None
    page.expect("#maintenances", "1 of 2 hosts done.")


def test_an_aggregate_that_is_paused(page: Page, upkeep: Upkeep) -> None:
    """Its suggestion cannot be begun; what a round saw of no host, and without moves, is said plainly."""
    seen = {"before": 0.0, "expected": 0.0, "mean": 0.0, "measured": 0, "hosts": 0}
    moved = {"instance_uuid": "u1", "name": "web", "source": "h1", "destination": "h2", "memory_mb": 1, "gain": 4.0}
    last = {"seen_at": LONG_AGO, "uuid": "r1", "aggregate": "warm", "status": "suggested", "after": None}
    seen_two = {**seen, "hosts": 2, "before": 9.0, "expected": 5.0}
    upkeep.balance("empty", last={**last, "seen": seen, "moves": [], "not_done": {}, "status": "nothing"})
    moves = [{**moved, "status": "suggested", "why": None}]
    upkeep.balance("warm", paused=True, last={**last, "seen": seen_two, "moves": moves, "not_done": {}})
    page.open("#upkeep")
    page.expect("#balancing", "no host of the aggregate may take guests.No move.")
    page.expect("#balancing", "Paused: hosts are not looked at.")
    page.expect("#balancing", "5.0 points are expected after its moves.")
    page.count("text=Begin these moves", 0)
    upkeep.balances[1]["paused"] = False
    page.count("text=Begin these moves", 1)
