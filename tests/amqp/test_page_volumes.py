# SPDX-License-Identifier: Apache-2.0
"""Volumes on the page: the list, one of them, and its verbs, with a volume agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.amqp.daemons import Trio, delete_service, eventually
from tests.amqp.pages import Page, open_url, page, people, people_url

__all__ = ["open_url", "page", "people", "people_url"]

_CONFIG = """\
[DEFAULT]
host = vault
enabled_backends = files
volume_state_path = {directory}/state
[files]
volume_driver = directory
directory_pools = files:{directory}/files
"""


@pytest.fixture(scope="module", autouse=True)
def vault(trio: Trio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A volume agent with one pool."""
    directory = tmp_path_factory.mktemp("vault")
    config = directory / "volume.conf"
    config.write_text(_CONFIG.format(directory=directory))
    trio.start("vault", "fleet-volume", "--config-file", str(config))
    eventually(lambda: [each["state"] for each in trio.operator("list_pools")] == ["up"])
    yield
    trio.stop("vault")
    delete_service(trio, "vault@files", "fleet-volume")
    trio.forget("vault")


def test_a_volume_from_its_making_to_its_end(page: Page, trio: Trio) -> None:
    """Nothing yet says what to do; a refusal of the call stays in the dialog."""
    page.open("#volumes")
    page.expect("#volumes", "No volume yet.")
    page.press("New volume")
    page.tab.fill("#volume-name", "data")
    page.tab.fill("#volume-size", "999999")
    page.answer("Create")
    page.expect("main h1", "data")
    page.expect("main h1 ~ .badge", "error")
    page.press("Delete")
    page.answer("Delete")
    page.expect("#volumes", "No volume yet.")
    page.press("Create the first one")
    page.tab.fill("#volume-name", "data")
    page.tab.fill("#volume-size", "3")
    page.answer("Create")
    page.expect("main h1 ~ .badge", "available")
    page.expect("ol.timeline", "create")
    page.press("Extend")
    page.tab.fill("#volume-size", "4")
    page.answer("Extend")
    page.expect("#details", "4 GB")
    page.expect("main h1 ~ .badge", "available")
    held = page.hold()
    trio.operator("extend_volume", name="data", size=5)
    eventually(lambda: "available" == trio.operator("show_volume", name="data")["status"])
    page.tab.unroute_all()
    for each in held:
        each.continue_()
    page.expect("#details", "5 GB")
    page.press("Extend")
    page.expect("dialog", "It has 5 GB")
    page.answer("Cancel")
    page.open("#volumes?search=DAT")
    page.expect("#volumes tbody", re.compile("data.*available.*5 GB.*vault@files"))
    page.tab.click("#volumes tbody a")
    page.press("Delete")
    page.expect("dialog", "Its data are lost")
    page.answer("Delete")
    eventually(lambda: not trio.operator("list_volumes"))


@pytest.mark.long
def test_another_project_sees_no_volume(people: Callable[[str], Page], trio: Trio) -> None:
    """Nor the pool of its own one."""
    alice, bob = people("alice"), people("bob")
    alice.open("#volumes")
    alice.press("New volume")
    alice.tab.fill("#volume-name", "hers")
    alice.tab.fill("#volume-size", "1")
    alice.answer("Create")
    alice.expect("main h1 ~ .badge", "available")
    assert "vault" not in alice.tab.inner_text("main")
    bob.open("#volumes")
    bob.expect("#volumes", "No volume yet.")
    (hers,) = trio.operator("list_volumes")
    bob.open(f"#volumes/{hers['uuid']}")
    bob.expect("#status", f"Volume {hers['uuid']} could not be found")
    bob.forgive("404")
    alice.press("Delete")
    alice.answer("Delete")
    eventually(lambda: not trio.operator("list_volumes"))
