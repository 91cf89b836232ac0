# SPDX-License-Identifier: Apache-2.0
"""Room and use on the page: what fits, what is free where, and what has been used since the fleet began."""

from __future__ import annotations

import re

import pytest

from tests.amqp.daemons import Trio
from tests.amqp.pages import Page, open_url, page

__all__ = ["open_url", "page"]


@pytest.fixture(scope="module", autouse=True)
def flavor(trio: Trio) -> None:
    trio.operator("create_flavor", flavor={"name": "page.small", "vcpus": 1, "memory_mb": 512, "root_gb": 1})


#: Where the word beside the pointer says a text, or null. Moving the real pointer over thousands of places takes minutes.
_PLACE_OF = """text => {
  const canvas = document.querySelector("canvas"), word = document.querySelector(".hover");
  const { left, top, width, height } = canvas.getBoundingClientRect();
  for (let x = 40; x < width; x += 4) for (let y = 8; y < height; y += 4) {
    canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: left + x, clientY: top + y, bubbles: true }));
    if (!word.hidden && word.textContent.includes(text)) return { x, y };
  }
  return null;
}"""


def find_dot(page: Page, text: str) -> None:
    """Look for the dot that says this, and move the pointer there."""
    place = page.tab.wait_for_function(_PLACE_OF, arg=text).json_value()
    page.tab.mouse.move(0, 0)
    page.tab.hover("canvas", position=place)
    page.expect(".hover", text)


def test_room(page: Page, trio: Trio) -> None:
    """What fits, by flavor and zone; hosts that are alike are one dot, which says how many they are."""
    page.open("#room")
    page.expect("#fits tbody", "page.small")
    page.expect("#fits thead", "nova")
    find_dot(page, "6 hosts: about")


def test_use_over_time(page: Page, trio: Trio) -> None:
    """What runs now is the last number; another span of time is asked for anew, and is in the address."""
    (uuid,) = trio.boot(name="counted")
    trio.wait_for([uuid], "active")
    page.open("#use")
    page.expect("#status", re.compile(r"1 instance now"))
    page.expect("#use-vcpus p", re.compile(r"Now 1, 0 % of [\d,]+; least \d+, most [1-9]"))
    with page.tab.expect_response(re.compile("use\\?hours=1&")) as asked:
        page.tab.select_option("#hours", "1")
    assert asked.value.ok
    assert "hours=1" in page.tab.url
    page.expect("#use-instances p", re.compile(r"Now [1-9]"))
    page.tab.hover("#use-vcpus canvas")
    page.expect("#use-vcpus .hover", re.compile(r":\d\d.*\n\d"))


def test_nothing_is_invented_before_the_fleet(page: Page, trio: Trio) -> None:
    """The least of a month is not zero if instances ran since the fleet began: what was before does not count."""
    (uuid,) = trio.boot(name="counted")
    trio.wait_for([uuid], "active")

    def as_if_it_began(route: object) -> None:
        answer = route.fetch()  # type: ignore[attr-defined]
        found = answer.json()
        half = len(found["times"]) // 2
        found.update(began=found["times"][half], vcpus=[0] * half + [7] * (len(found["times"]) - half))
        route.fulfill(response=answer, json=found)  # type: ignore[attr-defined]

    page.tab.route("**/use?**", as_if_it_began)
    page.open("#use?hours=744")
    page.expect("#use-vcpus p", re.compile(r"Now 7, .*; least 7, most 7"))
    page.tab.hover("#use-vcpus canvas", position={"x": 70, "y": 60})
    page.expect("#use-vcpus .hover", re.compile(r"\n7$"))
    page.tab.unroute_all()
