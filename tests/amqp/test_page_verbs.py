# SPDX-License-Identifier: Apache-2.0
"""The page acts: boot after an explanation, verbs of instances and hosts, each with the call's own refusal."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright import sync_api

from tests.amqp.daemons import Trio, eventually
from tests.amqp.pages import Page, boot_for, open_url, page, people, people_url

__all__ = ["open_url", "page", "people", "people_url"]

#: A call that no button offers, by the page's own module.
_STOP = """async (uuid) => {
  const { ask } = await import(`${location.origin}/ui/base/api.js`);
  return ask("operator/stop_instance", { name: uuid }).then(() => "done", (failed) => failed.message);
}"""


@pytest.fixture(scope="module", autouse=True)
def flavors(trio: Trio) -> None:
    for name, memory_mb in (("page.small", 512), ("page.large", 1024), ("page.never", 10_000_000)):
        trio.operator("create_flavor", flavor={"name": name, "vcpus": 1, "memory_mb": memory_mb, "root_gb": 1})


def running(trio: Trio, name: str, host: str = "a1") -> str:
    (uuid,) = trio.boot(name=name, flavor="page.small", availability_zone=f"nova:{host}")
    trio.wait_for([uuid], "active")
    return uuid


def test_boot_explains_before_it_books(page: Page, trio: Trio) -> None:
    """Nothing is booked by the explanation; a changed form has to be explained anew."""
    page.open("#boot")
    page.tab.select_option("#flavor", "page.small")
    page.tab.fill("#name", "web")
    assert page.tab.is_disabled("#book")
    page.press("Explain")
    page.expect("#answer h2", "1 instance(s) would go to")
    page.count("#answer meter", 6)
    assert [] == trio.operator("list_instances")
    page.tab.fill("#count", "2")
    assert page.tab.is_disabled("#book")
    page.press("Explain")
    page.expect("#answer h2", "2 instance(s) would go to")
    page.press("Boot")
    page.expect("main h1", "Instances")
    page.count("#instances tbody tr", 2)
    assert {"ops", "admin"} & {each["project_id"] for each in trio.operator("list_instances")}


def test_an_answer_about_the_former_form_books_nothing(page: Page) -> None:
    """The form changes while the scheduler is asked: what it says about one instance does not allow a hundred."""
    page.open("#boot")
    page.tab.select_option("#flavor", "page.small")
    page.tab.fill("#name", "web")
    asked: list[sync_api.Route] = []
    page.tab.route("**/fleet/v1/explain", lambda route: asked.append(route))
    with page.tab.expect_request("**/fleet/v1/explain"):
        page.press("Explain")
    page.tab.fill("#count", "100")
    with page.tab.expect_response("**/fleet/v1/explain"):
        asked[0].continue_()
    page.expect("#answer", "The form has changed: explain it again.")
    assert page.tab.is_disabled("#book")


def test_a_lost_answer_books_nothing_twice(page: Page, trio: Trio) -> None:
    """The form changes, and back, while the booking is under way: the same request has the same token."""
    page.open("#boot")
    page.tab.select_option("#flavor", "page.small")
    page.tab.fill("#name", "once")
    page.press("Explain")
    page.expect("#answer h2", "1 instance(s) would go to")
    sent: list[sync_api.Route] = []
    page.tab.route("**/compute_task/create", lambda route: sent.append(route))
    with page.tab.expect_request("**/compute_task/create"):
        page.press("Boot")
    page.tab.fill("#count", "2")
    page.tab.fill("#count", "1")
    page.forgive("ERR_FAILED")
    sent[0].fetch()
    sent[0].abort()
    page.expect("#answer", "fleet-api does not answer")
    assert page.tab.is_disabled("#book")
    page.tab.unroute_all()
    page.press("Explain")
    page.expect("#answer h2", "1 instance(s) would go to")
    page.press("Boot")
    page.expect("main h1", "once")
    assert 1 == len(trio.operator("list_instances"))


def test_boot_that_would_fail(page: Page, trio: Trio) -> None:
    """The filters, the nearest hosts, and no button; what cannot be read is named."""
    page.open("#boot")
    page.tab.select_option("#flavor", "page.never")
    page.press("Explain")
    page.expect("#answer", "Name: give it one")
    page.tab.fill("#name", "whale")
    page.press("Explain")
    page.expect("#answer", "NEVER_FITS")
    page.expect("#answer table", "RamFilter")
    assert page.tab.is_disabled("#book")
    page.tab.fill("#hints", "nonsense")
    page.press("Explain")
    page.expect("#answer", "Hints: 'nonsense' is not NAME=VALUE")
    assert [] == trio.operator("list_instances")


def test_a_member_boots_within_quotas(people: Callable[[str], Page], trio: Trio) -> None:
    """What it takes of each quota comes first, then the booking in the own project; beyond a quota there is no button."""
    trio.operator("set_quota", project_id="web", limits={"instances": 2})
    page = people("alice")
    page.open("#boot")
    page.tab.select_option("#flavor", "page.small")
    page.tab.fill("#name", "hers")
    page.tab.fill("#count", "3")
    page.press("Check")
    page.expect("#answer", "It is beyond a quota")
    assert page.tab.is_disabled("#book")
    page.tab.fill("#count", "1")
    page.press("Check")
    page.expect("#answer", "It is within the quotas")
    page.press("Boot")
    page.expect("main h1", "hers")
    page.expect("#head .badge", "active")
    (made,) = trio.operator("list_instances")
    assert ("hers", "web", "alice") == (made["name"], made["project_id"], made["user_id"])


def test_stop_and_start(page: Page, trio: Trio) -> None:
    """Only the verbs of its state are offered."""
    uuid = running(trio, "web")
    page.open(f"#instances/{uuid}")
    page.press("Stop")
    page.expect("dialog", "The guest is switched off")
    page.answer("Cancel")
    page.count("dialog", 0)
    page.press("Stop")
    page.answer("Stop")
    page.expect("#note", "Stop: asked for web")
    page.expect("#head .badge", re.compile("^stopped$"))
    assert 0 == page.tab.get_by_role("button", name="Stop", exact=True).count()
    page.press("Start")
    page.expect("#head .badge", re.compile("^active$"))


def test_a_refusal_is_the_calls_own(page: Page, trio: Trio) -> None:
    """In the dialog, which stays; meanwhile another user has stopped the guest."""
    uuid = running(trio, "web")
    page.open(f"#instances/{uuid}")
    page.press("Migrate")
    page.tab.fill("#to-host", "nowhere")
    page.tab.select_option("#how", "migrate_instance")
    page.answer("Migrate")
    page.expect("dialog [role=alert]", re.compile("nowhere"))
    page.answer("Cancel")
    page.press("Reboot")
    trio.operator("stop_instance", name=uuid)
    trio.wait_for([uuid], "stopped")
    page.answer("Reboot")
    page.expect("dialog [role=alert]", "Instance web is STOPPED")
    page.forgive("40")


@pytest.mark.long
def test_resize_and_confirm(page: Page, trio: Trio) -> None:
    uuid = running(trio, "web")
    page.open(f"#instances/{uuid}")
    page.press("Resize")
    page.tab.select_option("#new-flavor", "page.large")
    page.answer("Resize")
    page.press("Confirm the move")
    page.expect("#details", "page.large: 1 vcpus, 1 GB")
    page.expect("#head .badge", re.compile("^active$"))


@pytest.mark.long
def test_migrate(page: Page, trio: Trio) -> None:
    """To a host by name, switched off meanwhile."""
    uuid = running(trio, "web", "a1")
    page.open(f"#instances/{uuid}")
    page.press("Migrate")
    page.tab.fill("#to-host", "b2")
    page.tab.select_option("#how", "migrate_instance")
    page.answer("Migrate")
    page.expect("#details", re.compile("host *b2"))
    assert "b2" == trio.show(uuid)["instance"]["host"]


def test_delete(page: Page, trio: Trio) -> None:
    """It asks first, and leads back to the list."""
    uuid = running(trio, "web")
    page.open(f"#instances/{uuid}")
    page.press("Delete")
    page.expect("dialog h2", "Delete web?")
    page.answer("Delete")
    page.expect("main h1", "Instances")
    eventually(lambda: not trio.operator("list_instances"))


@pytest.mark.long
def test_drain_and_enable(page: Page, trio: Trio) -> None:
    """With a reason; its instances stay, or are moved by calls of their own."""
    uuid = running(trio, "web", "b1")
    page.open("#hosts/b1")
    try:
        page.press("Drain")
        page.expect("dialog", "1 instance is on it")
        page.tab.fill("#reason", "new disk")
        page.answer("Drain")
        page.expect("#note", "b1 gets no more builds")
        page.expect("#head", re.compile("disabled.*new disk", re.DOTALL))
        page.press("Move instances away")
        page.tab.select_option("#how", "cold")
        page.answer("Drain")
        page.expect("#note", "1 move asked for")
        page.press("Confirm 1 move")
        page.expect("#note", "1 move confirmed")
        eventually(lambda: trio.show(uuid)["instance"]["host"] != "b1" and trio.state(uuid) == "active")
        page.press("Enable")
        page.expect("#note", "b1 takes builds again")
        page.expect("#head .badge", re.compile("^up$"))
    finally:
        trio.operator("update_service", host="b1", binary="fleet-compute", disabled=False)


@pytest.mark.long
def test_a_drain_is_about_the_instances_that_are_there_now(page: Page, trio: Trio) -> None:
    """One that has left by another's order is not moved again: neither by an open question, nor by the next one."""
    uuid = running(trio, "web", "b1")
    trio.operator("update_service", host="b1", binary="fleet-compute", disabled=True, reason="old")
    try:
        page.open("#hosts/b1")
        page.expect("#view", "web")
        page.press("Move instances away")
        page.expect("dialog", "1 instance is on it")
        page.tab.select_option("#how", "cold")
        trio.operator("migrate_instance", name=uuid, host="a1")
        trio.wait_for([uuid], "resized")
        trio.operator("confirm_resize", name=uuid)
        trio.wait_for([uuid], "active")
        page.tab.fill("#reason", "old")
        page.answer("Drain")
        page.expect("#note", "0 moves asked for")
        page.expect("#view", "No instance is on it.")
        page.press("Move instances away")
        page.expect("dialog", "0 instances are on it")
        assert 1 == len(trio.operator("list_migrations", filters={"instance_uuid": uuid}))
    finally:
        trio.operator("update_service", host="b1", binary="fleet-compute", disabled=False)


def test_verbs_are_those_of_the_policy(people: Callable[[str], Page], trio: Trio) -> None:
    """A reader has none, a member no moves between hosts; the server refuses as well what no button offers."""
    (uuid,) = boot_for(trio, "web", name="ours", flavor="page.small")
    trio.wait_for([uuid], "active")
    expected = {
        "alice": ["Stop", "Reboot", "Shelve", "Rebuild", "Resize", "Lock", "Delete"],
        "rita": [],
        "root": ["Stop", "Reboot", "Shelve", "Rebuild", "Resize", "Migrate", "Lock", "Delete"],
    }
    for name, verbs in expected.items():
        page = people(name)
        page.open(f"#instances/{uuid}")
        page.expect("#head .badge", re.compile("^active$"))
        assert verbs == page.tab.locator("#head button").all_inner_texts()
        if name == "rita":
            refused = page.tab.evaluate(_STOP, uuid)
            assert "not allowed" in refused
            page.forgive("403")


def test_boot_into_a_network(page: Page, trio: Trio) -> None:
    """The default network is proposed where there are networks; the instance shows its address."""
    network = trio.operator(
        "create_network", network={"name": "lan", "bridge": "br0", "subnet": "10.9.0.0/24", "is_default": True}
    )
    try:
        page.open("#boot")
        page.tab.select_option("#flavor", "page.small")
        page.expect("#network", "the default one")
        page.tab.fill("#name", "plugged")
        page.press("Explain")
        page.expect("#answer h2", "1 instance(s) would go to")
        page.press("Boot")
        page.expect("main h1", "plugged")
        page.expect("#details", "10.9.0.1 in lan")
        (made,) = trio.operator("list_instances")
        trio.wait_for([made["uuid"]], "active")
        trio.terminate([made["uuid"]])
        eventually(lambda: not trio.operator("list_instances"))
    finally:
        trio.operator("delete_network", name=network["uuid"])
