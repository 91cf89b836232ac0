# SPDX-License-Identifier: Apache-2.0
"""The first view of the page: the fleet for administrators, the own project for its members."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.amqp.daemons import Trio, eventually
from tests.amqp.pages import Page, boot_for, open_url, page, people, people_url

__all__ = ["open_url", "page", "people", "people_url"]

TOO_LARGE = {"vcpus": 1, "memory_mb": 10_000_000, "root_gb": 1}


@pytest.fixture(scope="module", autouse=True)
def flavor(trio: Trio) -> None:
    trio.operator("create_flavor", flavor={"name": "page.small", "vcpus": 1, "memory_mb": 512, "root_gb": 1})


def test_a_fleet_without_instances(page: Page) -> None:
    """It says what to do next."""
    page.open()
    page.expect("main", "No instance yet.")
    page.expect("#failing", "No instance is in ERROR.")
    page.expect("#waiting", "No build waits for room.")
    page.tab.get_by_role("link", name="Boot the first one").click()
    page.expect("main h1", "Boot")


def test_the_fleet_at_a_glance(page: Page, trio: Trio) -> None:
    """Hosts by state, use against limits, what fails with its reason, who waits with what it lacks."""
    trio.operator("update_service", host="b3", binary="fleet-compute", disabled=True, reason="tested")
    (a1,) = trio.operator("show_host", name="a1")["nodes"]
    most = a1["memory_mb"] - a1["reserved_memory_mb"]
    running = [
        trio.boot(name=f"fills-{number}", flavor={"vcpus": 1, "memory_mb": most, "root_gb": 1}) for number in range(6)
    ]
    trio.wait_for([uuid for each in running for uuid in each], "active", "error")
    trio.wait_for(trio.boot(name="whale", flavor=TOO_LARGE), "error")
    (waits,) = trio.boot(name="patient", flavor={"vcpus": 1, "memory_mb": most, "root_gb": 1}, wait_for_capacity_s=600)
    eventually(lambda: trio.show(waits)["instance"]["task_state"] == "queued")
    try:
        page.open()
        page.expect(".card >> nth=0", "5 up, 1 disabled")
        ratio = a1["ram_allocation_ratio"]
        share = round(100 * 5 * most / (6 * most * ratio))
        page.expect(".card:has-text('Memory') .figure", f"{share} %")
        page.expect(".card:has-text('Instances')", re.compile(r"5 active.*1 building.*2 error"))
        page.expect("#failing", re.compile("whale.*NEVER_FITS"))
        page.expect("#waiting tbody", re.compile("patient.*MB of RAM"))
        page.expect("#doctor", re.compile("driver.*hosts are simulated.*Set compute_driver"))
        page.expect("#day", re.compile(r"Now 5, \d+ % of"))
        page.tab.click("#failing a >> nth=0")
        page.expect("main", "Why it failed")
    finally:
        trio.operator("update_service", host="b3", binary="fleet-compute", disabled=False)


def test_a_figure_leads_to_its_list(page: Page) -> None:
    page.open()
    page.tab.click(".card >> nth=0")
    page.expect("main h1", "Hosts")


def test_an_administrator_with_a_password_sees_the_fleet(people: Callable[[str], Page]) -> None:
    page = people("root")
    page.open()
    page.expect(".card >> nth=0", "6 up")


def test_a_member_sees_the_own_project(people: Callable[[str], Page], trio: Trio) -> None:
    """Quotas, servers, what fails and what has happened of this project; nothing of another one, and no hosts."""
    trio.operator("set_quota", project_id="web", limits={"instances": 4})
    (theirs,) = boot_for(trio, "lab", name="theirs", flavor="page.small")
    (ours,) = boot_for(trio, "web", name="ours", flavor="page.small")
    trio.wait_for([theirs, ours], "active")
    trio.wait_for(boot_for(trio, "web", name="whale", flavor=TOO_LARGE), "error")
    page = people("alice")
    page.open()
    page.expect("main h1", "Project web")
    page.expect("#who", "alice of project web (member)")
    page.expect("#quotas .card >> nth=0", "2 of 4")
    page.expect("main table >> nth=0", "ours")
    page.expect("#failing", re.compile("whale.*NEVER_FITS"))
    page.expect("main table >> nth=-1", "create")
    shown = page.tab.inner_text("main")
    assert "theirs" not in shown
    assert [] == re.findall(r"\b[ab][123]\b", shown)


def test_tabs_that_one_may_not_see_are_not_there(people: Callable[[str], Page]) -> None:
    """An address that names one leads to the overview; a reader finds no verbs."""
    member, reader = people("alice"), people("rita")
    for each in (member, reader):
        each.open("#hosts/a1")
        each.expect("main h1", "Project web")
    assert ["Overview", "Instances", "Volumes", "Events", "Boot"] == member.tabs()
    assert ["Overview", "Instances", "Volumes", "Events"] == reader.tabs()
    assert 0 == reader.tab.get_by_role("link", name="Boot").count()


@pytest.mark.long
def test_another_project_is_not_there(people: Callable[[str], Page], trio: Trio) -> None:
    """By the address of its instance: the server's own words. Its list and its events have nothing of others."""
    (theirs,) = boot_for(trio, "lab", name="theirs", flavor="page.small")
    trio.wait_for([theirs], "active")
    page = people("alice")
    page.open(f"#instances/{theirs}")
    page.expect("#status", f"Instance {theirs} could not be found")
    page.forgive("404")
    page.open("#instances")
    page.expect("#instances", "No instance yet.")
    page.open("#events")
    page.expect("#status", "live")
    assert "theirs" not in page.tab.inner_text("main")
    other = people("bob")
    other.open("#instances")
    other.expect("#instances tbody", "theirs")
