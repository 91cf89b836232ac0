# SPDX-License-Identifier: Apache-2.0
"""Lists of the page: search, states, order, parts, rows that are links, and the history of each."""

from __future__ import annotations

import re

import pytest

from tests.amqp.daemons import Trio
from tests.amqp.pages import Page, open_url, page

__all__ = ["open_url", "page"]

TOO_LARGE = {"vcpus": 1, "memory_mb": 10_000_000, "root_gb": 1}


@pytest.fixture(scope="module", autouse=True)
def flavor(trio: Trio) -> None:
    trio.operator("create_flavor", flavor={"name": "page.small", "vcpus": 1, "memory_mb": 512, "root_gb": 1})


def names(page: Page, of: str) -> list[str]:
    return page.tab.locator(f"#{of} tbody tr td:first-child").all_inner_texts()


@pytest.mark.long
def test_a_list_in_parts(page: Page, trio: Trio) -> None:
    """Fifty at a time; order and part are in the address, so a link shows the same."""
    trio.wait_for(trio.boot(name="many", count=60, flavor=TOO_LARGE), "error")
    page.open("#instances?sort=name&order=up")
    page.expect(".pager", "1–50 of 60")
    page.press("Next")
    page.expect(".pager", "51–60 of 60")
    page.count("#instances tbody tr", 10)
    assert "from=50" in page.tab.url
    page.tab.reload()
    page.expect(".pager", "51–60 of 60")
    page.press("Previous")
    page.count("#instances tbody tr", 50)


def test_search_and_states(page: Page, trio: Trio) -> None:
    """A part of any text; the states show how many there are of each; nothing found says how to go on."""
    (web,) = trio.boot(name="web", flavor="page.small", availability_zone="nova:a2")
    trio.wait_for([web], "active")
    trio.wait_for(trio.boot(name="whale", flavor=TOO_LARGE), "error")
    page.open("#instances")
    page.expect(".chips", "All 2")
    page.tab.fill("#search", "WHA")
    page.count("#instances tbody tr", 1)
    page.expect("#instances tbody", "whale")
    page.tab.fill("#search", "a2")
    page.expect("#instances tbody", "web")
    page.tab.fill("#search", "")
    page.press("error 1")
    page.expect("#instances tbody", "whale")
    assert "state=error" in page.tab.url
    page.tab.fill("#search", "nosuch")
    page.expect("#instances", "Nothing matches.")
    page.press("Show all")
    page.count("#instances tbody tr", 2)


def test_order(page: Page, trio: Trio) -> None:
    """By a click on a column, and the other way round by another; it can be told without colours."""
    uuids = [uuid for name in ("b", "c", "a") for uuid in trio.boot(name=name, flavor="page.small")]
    trio.wait_for(uuids, "active")
    page.open("#instances")
    page.count("#instances tbody tr", 3)
    page.press("name")
    page.expect('th[aria-sort="ascending"]', "name")
    page.expect("#instances tbody tr >> nth=0", "a")
    assert ["a", "b", "c"] == names(page, "instances")
    page.press("name ▴")
    page.expect('th[aria-sort="descending"]', "name")
    page.expect("#instances tbody tr >> nth=0", "c")
    assert ["c", "b", "a"] == names(page, "instances")


def test_a_row_is_a_link(page: Page, trio: Trio) -> None:
    """By a click anywhere in it, and by the keyboard on its name. The history has each step."""
    (uuid,) = trio.boot(name="web", flavor="page.small")
    trio.wait_for([uuid], "active")
    page.open("#instances")
    page.tab.click("#instances tbody td:nth-child(2)")
    page.expect("main h1", "web")
    page.expect("ol.timeline", "claim")
    page.expect("ol.timeline", "create")
    page.tab.get_by_role("link", name="All instances").click()
    page.tab.focus("#instances tbody a")
    page.tab.keyboard.press("Enter")
    page.expect("#details", uuid)


@pytest.mark.long
def test_the_list_follows(page: Page, trio: Trio) -> None:
    """Without a reload, and the focus stays where it was."""
    page.open("#instances")
    page.expect("#instances", "No instance yet.")
    (uuid,) = trio.boot(name="growing", flavor="page.small")
    page.expect("#instances tbody", "active")
    page.tab.focus("#instances tbody a")
    trio.boot(name="another", flavor="page.small")
    page.count("#instances tbody tr", 2)
    assert f"#instances/{uuid}" == page.tab.evaluate("document.activeElement.getAttribute('href')")


def test_a_refusal(page: Page, trio: Trio) -> None:
    """The filter table, and the hosts that came nearest."""
    (uuid,) = trio.boot(name="too large", flavor=TOO_LARGE)
    trio.wait_for([uuid], "error")
    page.open(f"#instances/{uuid}")
    page.expect("main", re.compile("Why it failed.*NEVER_FITS", re.DOTALL))
    page.expect("main table", "RamFilter")
    page.expect("main ul", "MB of RAM")


def test_hosts(page: Page, trio: Trio) -> None:
    """Use against limits, which are physical times ratio; by name as people count; down to one host and its history."""
    (a1,) = trio.operator("show_host", name="a1")["nodes"]
    vcpus = a1["vcpus"]
    (uuid,) = trio.boot(
        name="wide", flavor={"vcpus": vcpus, "memory_mb": 64, "root_gb": 1}, availability_zone="nova:a1"
    )
    trio.wait_for([uuid], "active")
    limit = round(vcpus * a1["cpu_allocation_ratio"])
    page.open("#hosts")
    page.expect("#hosts tbody tr >> nth=0", f"{vcpus:,} / {limit:,}")
    page.press("cpu")
    page.expect("#hosts tbody tr >> nth=0", "a1")
    page.tab.fill("#search", "b")
    page.count("#hosts tbody tr", 3)
    page.tab.fill("#search", "a1")
    page.count("#hosts tbody tr", 1)
    page.tab.click("#hosts tbody a")
    page.expect("#details", f"CPU {vcpus:,} of {limit:,}")
    page.expect("#details", f"physical × {a1['cpu_allocation_ratio']:g}")
    page.expect("main", re.compile("What happened on it.*wide.*claim", re.DOTALL))


def test_events_begin_with_the_last(page: Page, trio: Trio) -> None:
    """What was before, then what happens, within seconds and without a reload; a name leads to the instance."""
    (uuid,) = trio.boot(name="before", flavor="page.small")
    trio.wait_for([uuid], "active")
    page.open("#events")
    page.expect("#events tbody", re.compile("before.*create"))
    page.expect("#status", "live")
    trio.boot(name="seen-live", flavor="page.small")
    page.expect("#events tbody", re.compile("seen-live.*attempt.*success|seen-live.*success"))
    trio.wait_for(trio.boot(name="whale", flavor=TOO_LARGE), "error")
    page.press("What failed")
    page.expect("#events tbody tr >> nth=0", "NoValidHost")
    page.press("All")
    page.tab.get_by_role("link", name="seen-live").first.click()
    page.expect("main h1", "seen-live")


def test_acts_of_administrators(page: Page, trio: Trio) -> None:
    """Who has changed what, from what to what."""
    trio.operator("set_quota", project_id="watched", limits={"instances": 7})
    page.open("#events")
    page.press("Acts of administrators")
    page.expect("#events tbody", re.compile("quota.*watched.*7"))
    page.press("Instances")
    page.expect("#events", re.compile("result|Nothing has happened yet|No such event"))
