# SPDX-License-Identifier: Apache-2.0
"""The map of the page: use against limits, instances as blocks, colours, search, keyboard."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.amqp.daemons import Trio, eventually
from tests.amqp.pages import NARROW, PATIENCE_MS, Page, boot_for, open_url, page

__all__ = ["open_url", "page"]

#: The colour of a pixel of the map, beside a colour of the theme.
_PIXEL = """([x, y, name]) => {
  const canvas = document.querySelector("canvas");
  const scale = canvas.width / canvas.clientWidth;
  const [left, top] = [Math.round(x * scale), Math.round(y * scale)];
  const found = [...canvas.getContext("2d").getImageData(left, top, 1, 1).data].slice(0, 3);
  const wanted = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return [`#${found.map((each) => each.toString(16).padStart(2, "0")).join("")}`, wanted];
}"""


def node(trio: Trio, host: str) -> dict[str, Any]:
    (found,) = trio.operator("show_host", name=host)["nodes"]
    return dict(found)


def running(trio: Trio, name: str, host: str, project: str = "web", **request: Any) -> str:
    flavor = {"vcpus": 1, "memory_mb": 512, "root_gb": 1, **request.pop("flavor", {})}
    (uuid,) = boot_for(trio, project, name=name, availability_zone=f"nova:{host}", flavor=flavor, **request)
    trio.wait_for([uuid], "active")
    return uuid


def is_drawn(page: Page, x: float, y: float, name: str) -> None:
    """Wait until the pixel has this colour of the theme."""

    page.forgive("willReadFrequently")
    page.tab.wait_for_selector("canvas", timeout=PATIENCE_MS)

    def look() -> bool:
        found, wanted = page.tab.evaluate(_PIXEL, [x, y, name])
        return bool(found == wanted)

    eventually(look)


def test_use_is_shown_against_limits(page: Page, trio: Trio) -> None:
    """A host whose processors are all sold is not full: its limit is physical times ratio."""
    a1 = node(trio, "a1")
    running(trio, "wide", "a1", flavor={"vcpus": a1["vcpus"]})
    limit = a1["vcpus"] * a1["cpu_allocation_ratio"]
    assert limit > 2 * a1["vcpus"]
    page.open("#map?by=vcpus")
    page.expect("#status", "1 instance")
    is_drawn(page, 8, 80, "used")
    page.tab.hover("canvas", position={"x": 8, "y": 80})
    page.expect(".hover", f"CPU {round(100 * a1['vcpus'] / limit)} %: {a1['vcpus']:,} of {round(limit):,}")
    page.expect(".hover", "wide: ")


@pytest.mark.long
def test_a_full_host_has_another_colour(page: Page, trio: Trio) -> None:
    a1 = node(trio, "a1")
    most = a1["memory_mb"] - a1["reserved_memory_mb"]
    ratio = a1["ram_allocation_ratio"]
    running(trio, "first", "a1", flavor={"memory_mb": most})
    if ratio > 1.05:
        running(trio, "second", "a1", flavor={"memory_mb": int(most * (ratio - 1)) - 64})
    page.open("#map?by=memory_mb")
    is_drawn(page, 8, 60, "full")
    page.press("CPU")
    is_drawn(page, 340, 80, "free")
    assert "by=vcpus" in page.tab.url


@pytest.mark.long
def test_colours(page: Page, trio: Trio) -> None:
    """By project, group and a label: the legend counts each value, and the address keeps the choice."""
    group = trio.operator("create_group", name="together", policy="affinity")
    running(trio, "one", "a1", "web", metadata={"tier": "front"}, group=group["uuid"])
    running(trio, "two", "a1", "lab", metadata={"tier": "back"})
    running(trio, "three", "a2", "lab")
    page.open("#map")
    page.expect(".legend", "up to 75 % of the limit")
    page.press("Project")
    page.expect(".legend", re.compile(r"lab \(2\).*web \(1\)"))
    page.press("Group")
    page.expect(".legend", re.compile(r"together \(1\).*no group"))
    page.press("Label")
    page.tab.fill("#label", "tier")
    page.tab.press("#label", "Enter")
    page.expect(".legend", re.compile(r"back \(1\).*front \(1\).*no label"))
    page.tab.reload()
    page.expect(".legend", re.compile(r"back \(1\).*front \(1\).*no label"))


def test_rows_by_a_label_of_hosts(page: Page, trio: Trio) -> None:
    """Tiles are grouped by the values of a label; the address keeps the choice, and a value finds its host."""
    trio.operator("set_host_labels", host="a2", labels={"rack": "r7"})
    page.open("#map")
    page.expect("#status", "6 hosts")
    height = "document.querySelector('canvas')?.clientHeight ?? 0"
    by_zone = page.tab.evaluate(height)
    page.tab.select_option("#rows", "rack", timeout=PATIENCE_MS)
    eventually(lambda: page.tab.evaluate(height) > by_zone)
    assert "rows=rack" in page.tab.url
    page.tab.reload()
    eventually(lambda: page.tab.evaluate(height) > by_zone)
    page.tab.fill("#find", "r7")
    page.tab.press("#find", "Enter")
    page.expect("#details", "a2")
    trio.operator("set_host_labels", host="a2", labels={"rack": None})


def test_a_handful_of_hosts_uses_the_width(page: Page) -> None:
    """The last tile of a row ends where the map ends, wide or narrow."""
    for size in ({"width": 1280, "height": 800}, NARROW):
        page.tab.set_viewport_size(size)  # type: ignore[arg-type]
        page.open("#map")
        page.expect("#status", "6 hosts")
        width = page.tab.evaluate("document.querySelector('canvas').clientWidth")
        is_drawn(page, width - 3, 30, "free")
        is_drawn(page, 3, 30, "free")


def test_by_keyboard(page: Page, trio: Trio) -> None:
    """The arrow keys choose a host; its instances are links."""
    uuid = running(trio, "seen", "a2")
    page.open("#map")
    page.expect("#status", "1 instance")
    page.tab.focus("canvas")
    for name in ("a1", "a2"):
        page.tab.keyboard.press("ArrowRight")
        page.expect("#details h2", name)
    page.expect("#details table", "seen")
    page.tab.click("#details table a")
    page.expect("main h1", "seen")
    assert uuid in page.tab.url


def test_a_search(page: Page, trio: Trio) -> None:
    """By host, and by what runs there."""
    running(trio, "needle", "b2")
    page.open("#map")
    page.expect("#status", "1 instance")
    for wanted, expected in (("b3", "b3"), ("needle", "b2")):
        page.tab.fill("#find", wanted)
        page.tab.press("#find", "Enter")
        page.expect("#details h2", expected)
    page.tab.fill("#find", "nosuch")
    page.tab.press("#find", "Enter")
    page.expect("#details", "No host or instance is named nosuch")


@pytest.mark.long
def test_guests_without_a_place_are_marked(page: Page, trio: Trio) -> None:
    """Each host has a guest that no other host has room for; without a promise nothing is known."""
    page.open("#map?colour=survival")
    page.expect(".legend", "nothing is promised")
    most = node(trio, "a1")["memory_mb"] - node(trio, "a1")["reserved_memory_mb"]
    for number, host in enumerate(sorted(each["host"] for each in trio.operator("list_hosts"))):
        running(trio, f"alone-{number}", host, flavor={"memory_mb": most})
    assert 0 == trio.cli("tolerance", "set").returncode
    try:
        page.expect(".legend", "no place after a loss (6)")
    finally:
        trio.cli("tolerance", "unset")
