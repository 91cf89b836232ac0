# SPDX-License-Identifier: Apache-2.0
"""What holds on every view of the page: themes, narrow windows, hostile names, and a backend that is away."""

from __future__ import annotations

import re
from typing import Any

import pytest
import requests
from playwright import sync_api

from tests.amqp.daemons import Trio
from tests.amqp.pages import NARROW, PATIENCE_MS, Page, open_url, page

__all__ = ["open_url", "page"]

SCRIPT = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
#: The least contrast of text with what is behind it: WCAG 2.1, level AA.
CONTRAST = 4.5
VIEWS = ("overview", "map", "instances", "hosts", "volumes", "events", "boot", "room", "upkeep", "use")
#: The same code serves all of them.
EACH_VIEW = [pytest.param(view, marks=() if view in ("overview", "map") else pytest.mark.long) for view in VIEWS]
#: Milliseconds since the last answer, by the page's own module. One that was on its way counts when it arrives.
_SILENT_MS = "import(`${location.origin}/ui/base/api.js`).then((api) => api.silent())"
TOO_LARGE = {"vcpus": 1, "memory_mb": 10_000_000, "root_gb": 1}


@pytest.fixture(scope="module")
def flavor(trio: Trio) -> str:
    trio.operator("create_flavor", flavor={"name": "page.small", "vcpus": 1, "memory_mb": 512, "root_gb": 1})
    return "page.small"


def test_a_browser_gets_the_page_and_a_client_the_versions(page: Page) -> None:
    page.tab.goto(page.url)
    assert page.tab.url.startswith(f"{page.url}/ui/")
    page.expect("#status", "6 hosts, 6 up and enabled")
    assert "versions" in requests.get(page.url, timeout=30).json()


def test_an_administrator_has_all_views(page: Page) -> None:
    """An unknown one is the overview; a former one leads to what took its place."""
    page.open()
    titles = ["Overview", "Map", "Instances", "Hosts", "Volumes", "Events", "Boot", "Room", "Upkeep", "Use"]
    assert titles == page.tabs()
    page.open("#nosuch")
    page.expect("main h1", "Overview")
    page.open("#builds")
    page.expect("main h1", "Instances")


@pytest.mark.parametrize("view", EACH_VIEW)
def test_simulated_hosts_are_told(page: Page, view: str) -> None:
    page.open(f"#{view}")
    page.expect("#simulated", "SIMULATED: all hosts use the driver fake")


def test_names_stay_text(page: Page, trio: Trio, flavor: str) -> None:
    """Scripts in the names of instances, groups, labels and reasons do not run, on any view that shows them."""
    group = trio.operator("create_group", name=SCRIPT, policy="affinity")["uuid"]
    (uuid,) = trio.boot(name=SCRIPT, metadata={"note": SCRIPT}, group=group, availability_zone="nova:a1")
    trio.wait_for([uuid], "active")
    trio.operator("update_service", host="b3", binary="fleet-compute", disabled=True, reason=SCRIPT)
    try:
        for view, selector in {
            f"instances/{uuid}": "main h1",
            "instances": "#instances tbody",
            "events": "#events tbody",
            "hosts/a1": "main table >> nth=0",
            "hosts/b3": "#head",
            "map/a1": "#details",
            "overview": "#view",
            "boot": "#group",
        }.items():
            page.open(f"#{view}")
            page.expect(selector, "<img src=x" if view != "overview" else "Overview")
            assert "taken" != page.tab.title()
        for colour in ("group", "label"):
            page.open(f"#map?colour={colour}&label={'note' if colour == 'label' else ''}")
            page.expect(".legend", "<img src=x")
        assert [] == page.tab.locator("main img").all()
        assert "taken" != page.tab.title()
        policy = page.tab.request.get(f"{page.url}/ui/").headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
    finally:
        trio.operator("update_service", host="b3", binary="fleet-compute", disabled=False)


def test_nothing_comes_from_elsewhere(page: Page) -> None:
    """Every byte of the page is of this server."""
    asked: list[str] = []
    page.tab.on("request", lambda request: asked.append(request.url))
    for view in VIEWS:
        page.open(f"#{view}")
        page.expect("main h1", re.compile("."))
    assert [] == [each for each in asked if not each.startswith((page.url, "about:"))]
    assert len(asked) > len(VIEWS)


def test_a_page_of_another_site_changes_nothing(page: Page, trio: Trio) -> None:
    """A verb is a request of this page only: another origin is refused, whatever its form."""
    url = f"{page.url}/fleet/v1/calls/operator/update_service"
    body = '{"arguments": {"host": "a1", "disabled": true}}'
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        for kind in ("application/json", "text/plain"):
            answer = requests.post(url, data=body, headers={**headers, "Content-Type": kind}, timeout=30)
            assert 403 == answer.status_code
    (host,) = trio.operator("show_host", name="a1")["nodes"]
    assert "enabled" == host["status"]


def _luminance(colour: str) -> float:
    """Relative luminance of ``rgb(r, g, b)``: WCAG 2.1."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])


def _contrast(pair: list[str]) -> float:
    light, dark = sorted(map(_luminance, pair[:2]), reverse=True)
    return (light + 0.05) / (dark + 0.05)


_COLOURS = """() => [...document.querySelectorAll("main *, header *, nav *, .banner, .banner *")]
  .filter((each) => [...each.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim()) && each.offsetParent
    && !each.classList.contains("skip") && !each.disabled)
  .map((each) => {
    let behind = each;
    while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    return [getComputedStyle(each).color, getComputedStyle(behind ?? document.body).backgroundColor, each.textContent];
  })"""


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_can_be_read(page: Page, trio: Trio, flavor: str, theme: Any) -> None:
    """Every text of every view, with a refusal, a waiting build, and a host that is disabled."""
    (uuid,) = trio.boot(name="too large", flavor=TOO_LARGE)
    trio.wait_for([uuid], "error")
    trio.operator("update_service", host="b3", binary="fleet-compute", disabled=True, reason="tested")
    page.tab.emulate_media(color_scheme=theme)
    try:
        for view in (*VIEWS, f"instances/{uuid}", "hosts/b3", "map/b3"):
            page.open(f"#{view}")
            page.expect("main h1", re.compile("."))
            page.expect("#status", re.compile("."))
            found = page.tab.evaluate(_COLOURS)
            assert len(found) > 10
            assert [] == [each for each in found if _contrast(each) < CONTRAST], view
    finally:
        trio.operator("update_service", host="b3", binary="fleet-compute", disabled=False)


@pytest.mark.long
def test_a_narrow_window(page: Page, trio: Trio, flavor: str) -> None:
    """At 390 pixels nothing is wider than the window, on any view, also with a name that has no spaces."""
    (uuid,) = trio.boot(name="n" * 200, availability_zone="nova:a1")
    trio.wait_for([uuid], "active")
    page.tab.set_viewport_size(NARROW)  # type: ignore[arg-type]
    for view in (*VIEWS, f"instances/{uuid}", "hosts/a1", "map/a1"):
        page.open(f"#{view}")
        page.expect("main h1", re.compile("."))
        page.expect("#status", re.compile("."))
        assert NARROW["width"] >= page.tab.evaluate("document.documentElement.scrollWidth"), view


def _press_down(page: Page, element: sync_api.Locator) -> None:
    """Put the pointer on an element and press; the release is ``page.tab.mouse.up()``."""
    box = element.bounding_box()
    assert box
    page.tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.tab.mouse.down()


def test_a_banner_moves_nothing_from_under_the_pointer(page: Page) -> None:
    """A click that begins before a banner comes ends on the same button."""
    page.open("#events")
    page.expect("#status", "live")
    _press_down(page, page.tab.get_by_role("button", name="What failed"))
    page.tab.route("**/fleet/v1/**", lambda route: route.abort())
    page.expect("#away", re.compile("fleet-api does not answer"))
    page.tab.mouse.up()
    sync_api.expect(page.tab.get_by_role("button", name="What failed", pressed=True)).to_be_visible(timeout=PATIENCE_MS)
    page.forgive("ERR_FAILED")


@pytest.mark.long
def test_a_list_changes_after_the_click(page: Page, trio: Trio, flavor: str) -> None:
    """What comes while the pointer is down on a row is shown after the release, and the row is followed."""
    uuids = trio.boot(name="pressed")
    trio.wait_for(uuids, "active")
    page.open("#instances")
    row = page.tab.get_by_role("link", name="pressed")
    _press_down(page, row)
    uuids += trio.boot(name="comes later")
    trio.wait_for(uuids, "active")
    for _ in range(2):  # the first answer has been drawn when the second one comes
        with page.tab.expect_response(lambda answer: "comes later" in answer.text(), timeout=PATIENCE_MS):
            pass
    assert 0 == page.tab.get_by_role("link", name="comes later").count()
    page.tab.mouse.up()
    page.expect("main h1", "pressed")
    trio.terminate(uuids)


def test_an_api_that_is_gone(page: Page) -> None:
    """The page says since when, keeps what it shows, and goes on when there are answers."""
    page.open("#hosts")
    page.count("#hosts tbody tr", 6)
    page.tab.route("**/fleet/v1/**", lambda route: route.abort())
    page.expect("#away", re.compile("fleet-api does not answer. What you see is from .*The page tries again"))
    page.count("#hosts tbody tr", 6)
    page.tab.unroute("**/fleet/v1/**")
    page.gone("#away")
    page.forgive("ERR_FAILED")


@pytest.mark.long
def test_a_view_whose_files_do_not_come(page: Page) -> None:
    """A view is loaded when it is first opened. The one before stays, and the page tries again."""
    page.open("#instances")
    page.expect("#status", "instance")
    page.tab.route("**/hosts/hosts.js", lambda route: route.abort())
    page.tab.click("#nav a[href='#hosts']")
    page.expect("#status", "The view Hosts does not load; trying again.")
    page.expect("main h1", "Instances")
    page.tab.unroute_all()
    page.count("#hosts tbody tr", 6)
    page.expect("#status", "6 hosts")
    page.forgive("ERR_FAILED")


@pytest.mark.parametrize("view", EACH_VIEW)
def test_a_dead_backend_is_told_within_five_seconds(page: Page, view: str) -> None:
    """Nothing answers, and nothing refuses: as with a conductor that is gone. The clock is the test's."""
    page.tab.clock.install()
    page.open(f"#{view}")
    page.expect("#status", re.compile("."))
    page.tab.clock.pause_at(page.tab.evaluate("Date.now()") / 1000 + 60)
    page.tab.clock.run_for(500)
    # The clock has leapt: an answer that has come since then is the last one.
    page.tab.evaluate("import(`${location.origin}/ui/base/api.js`).then((api) => api.call('session')).then(() => null)")
    page.tab.clock.run_for(250)
    page.gone("#away")
    held = page.hold()
    page.forgive("ERR_FAILED")
    for _look in range(100):
        page.tab.clock.run_for(250)
        silent_ms = page.tab.evaluate(_SILENT_MS)
        if page.tab.is_visible("#away"):
            break
    assert 3000 < silent_ms <= 5000
    page.expect("#away", re.compile(r"No answer for \d s. What you see is from"))
    for each in held:
        each.abort()


def test_a_conductor_that_cannot_be_asked(page: Page) -> None:
    """The server's own sentence, at once."""
    page.open("#instances")
    page.expect("#status", "instance")
    said = '{"serviceUnavailable": {"code": 503, "message": "No conductor can be reached."}}'
    page.tab.route(
        "**/fleet/v1/**", lambda route: route.fulfill(status=503, body=said, content_type="application/json")
    )
    page.expect("#away", "No conductor can be reached. What you see is from")
    page.tab.unroute_all()
    page.gone("#away")
    page.forgive("503")
