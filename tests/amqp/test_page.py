# SPDX-License-Identifier: Apache-2.0
"""The page of ``fleet-api`` in a real browser, headless Chromium, before the trio."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright import sync_api

from tests.amqp.daemons import Trio
from tests.amqp.test_api import Api, api

__all__ = ["api"]

SCRIPT = "<script>document.title='taken'</script>"
#: The least contrast of text with what is behind it: WCAG 2.1, level AA.
CONTRAST = 4.5


class Page:
    """The page in one browser tab. Nothing may be reported to its console."""

    def __init__(self, tab: sync_api.Page, url: str) -> None:
        self.tab = tab
        self.url = url
        self.said: list[str] = []
        tab.on("console", lambda message: self.said.append(message.text))
        tab.on("pageerror", lambda failure: self.said.append(str(failure)))

    def open(self, view: str = "") -> None:
        self.tab.goto(f"{self.url}/ui/{view}")

    def expect(self, selector: str, text: str | re.Pattern[str]) -> None:
        """Wait until an element has this text."""
        sync_api.expect(self.tab.locator(selector)).to_contain_text(text, timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt install chromium")
    with sync_api.sync_playwright() as driver:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = driver.chromium.launch(executable_path=chromium, args=options)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: sync_api.Browser, api: Api) -> Iterator[Page]:
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    page = Page(tab, api.url)
    yield page
    tab.close()
    assert [] == page.said


@pytest.fixture(scope="module")
def flavor(api: Api, trio: Trio) -> str:
    trio.operator("create_flavor", flavor={"name": "page.small", "vcpus": 1, "memory_mb": 512, "root_gb": 1})
    return "page.small"


def test_a_browser_gets_the_page_and_a_client_the_versions(page: Page, api: Api) -> None:
    page.tab.goto(api.url)
    assert page.tab.url.startswith(f"{api.url}/ui/")
    page.expect("#status", "6 hosts, 6 up and enabled")
    assert "versions" in api("GET", "/")


def test_the_map_by_keyboard(page: Page, trio: Trio) -> None:
    """The arrow keys choose a host; its instances are links to their builds."""
    (uuid,) = trio.boot(name="seen", availability_zone="nova:a2")
    trio.wait_for([uuid], "active")
    page.open()
    page.expect("#status", "1 instances")
    page.tab.focus("canvas")
    for name in ("a1", "a2"):
        page.tab.keyboard.press("ArrowRight")
        page.expect("#details h2", name)
    page.expect("#details table", "seen")
    page.tab.click("#details table a")
    page.expect("#details h2", "seen")


def test_a_search_on_the_map(page: Page) -> None:
    page.open()
    page.expect("#status", "6 hosts")
    page.tab.fill("#find", "b3")
    page.tab.press("#find", "Enter")
    page.expect("#details h2", "b3")
    page.tab.fill("#find", "nosuch")
    page.tab.press("#find", "Enter")
    page.expect("#details", "No host is named nosuch")


def test_a_build_turns_green(page: Page, trio: Trio) -> None:
    """Without a reload: the page asks again by itself."""
    page.open("#builds")
    page.expect("#status", "0 under way")
    (uuid,) = trio.boot(name="growing")
    page.expect(f'tr[data-uuid="{uuid}"] span.good', "active")
    page.tab.click(f'tr[data-uuid="{uuid}"]')
    page.expect("#details ol.timeline", "claim")


def test_a_refusal(page: Page, trio: Trio) -> None:
    """The filter table, and the hosts that came nearest."""
    (uuid,) = trio.boot(name="too large", flavor={"vcpus": 1, "memory_mb": 10_000_000, "root_gb": 1})
    trio.wait_for([uuid], "error")
    page.open(f"#builds/{uuid}")
    page.expect("#details", "NEVER_FITS")
    page.expect("#details table", "RamFilter")
    page.expect("#details ul", "MB of RAM")


def test_a_name_stays_text(page: Page, trio: Trio) -> None:
    """A script in the name of an instance does not run, here or by what the policy lets in."""
    (uuid,) = trio.boot(name=SCRIPT)
    trio.wait_for([uuid], "active")
    page.open(f"#builds/{uuid}")
    page.expect("#details h2", SCRIPT)
    assert "fleet: builds" == page.tab.title()
    policy = page.tab.request.get(f"{page.url}/ui/").headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy


def test_explain(page: Page, flavor: str, trio: Trio) -> None:
    """Scores as bars; a hint that no host meets, and one that cannot be read."""
    page.open("#explain")
    page.tab.select_option("#flavor", flavor)
    page.tab.click("text=Explain >> nth=-1")
    page.expect("#answer h2", "1 instance(s) would go to")
    assert 6 == page.tab.locator("#answer meter").count()
    page.tab.fill("#hints", "requested_host=nowhere")
    page.tab.click("form button")
    page.expect("#answer", "POLICY")
    page.tab.fill("#hints", "nonsense")
    page.tab.click("form button")
    page.expect("#answer", "is not NAME=VALUE")
    assert [] == trio.operator("list_instances")


def test_room(page: Page, flavor: str) -> None:
    """What fits, by flavor and zone."""
    page.open("#room")
    page.expect("#fits table", flavor)
    page.expect("#fits thead", "nova")


def _luminance(colour: str) -> float:
    """Relative luminance of ``rgb(r, g, b)``: WCAG 2.1."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])


def _contrast(pair: list[str]) -> float:
    light, dark = sorted(map(_luminance, pair), reverse=True)
    return (light + 0.05) / (dark + 0.05)


_COLOURS = """() => [...document.querySelectorAll("h1, h2, h3, p, a, button, th, td, dt, dd, li, span")]
  .filter((each) => each.textContent.trim() && each.offsetParent && !each.classList.contains("skip"))
  .map((each) => {
    let behind = each;
    while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    return [getComputedStyle(each).color, getComputedStyle(behind ?? document.body).backgroundColor];
  })"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_can_be_read(page: Page, trio: Trio, theme: Any) -> None:
    """Every text of a refusal and of the list beside it."""
    (uuid,) = trio.boot(name="too large", flavor={"vcpus": 1, "memory_mb": 10_000_000, "root_gb": 1})
    trio.wait_for([uuid], "error")
    page.tab.emulate_media(color_scheme=theme)
    page.open(f"#builds/{uuid}")
    page.expect("#details table", "RamFilter")
    found = page.tab.evaluate(_COLOURS)
    assert len(found) > 20
    assert [] == [pair for pair in found if _contrast(pair) < CONTRAST]


def test_a_conductor_that_does_not_answer(page: Page) -> None:
    """The status line says so, and the page goes on."""
    page.tab.route("**/fleet/v1/**", lambda route: route.abort())
    page.open()
    page.expect("#status", "fleet-api does not answer")
    page.tab.unroute("**/fleet/v1/**")
    page.expect("#status", "6 hosts")
    page.said = [each for each in page.said if "ERR_FAILED" not in each]


def test_events_as_they_happen(page: Page, trio: Trio) -> None:
    """A boot shows within seconds, without a reload; its name leads to the build; what is left ends with the view."""
    page.open("#events")
    page.expect("#events", "Nothing has happened")
    page.expect("#status", "live")
    trio.cli("boot", "--flavor", "vcpus=1,memory_mb=64", "seen-live", "--wait")
    page.expect("#events tbody", re.compile("seen-live.*attempt.*success|seen-live.*success"))
    page.tab.get_by_role("link", name="seen-live").first.click()
    page.expect("#details", "seen-live")
    trio.cli("server", "delete", "seen-live", "--wait")
    assert [] == page.said


def test_use_over_time(page: Page, trio: Trio) -> None:
    """What runs now is the last number; another span of time is asked for anew."""
    (uuid,) = trio.boot(name="counted")
    trio.wait_for([uuid], "active")
    page.open("#use")
    running = re.compile(r"[1-9]\d* instances now")
    page.expect("#status", running)
    page.expect("#use-vcpus p", re.compile(r"Now [1-9]\d*, \d+ % of \d+; least \d+, most [1-9]"))
    with page.tab.expect_response(re.compile("use\\?hours=1$")) as asked:
        page.tab.select_option("#hours", "1")
    assert asked.value.ok
    page.expect("#use-instances p", re.compile(r"Now [1-9]"))
    page.tab.hover("#use-vcpus canvas")
    assert ": " in page.tab.get_attribute("#use-vcpus canvas", "title")
