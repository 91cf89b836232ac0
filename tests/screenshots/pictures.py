# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of each view with Chromium, in light and dark, wide and narrow."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Iterator

from PIL import Image
from playwright import sync_api

from tests import browsers

#: Name of a picture, user, view, and the selector of what must be there before it is taken.
VIEWS = (
    ("overview", "root", "overview", "#day p"),
    ("map", "root", "map?colour=project", ".legend"),
    ("map-use", "root", "map/host5", "#details table"),
    ("instances", "root", "instances", "#instances tbody"),
    ("instance", "root", "instances/{failed}", "main table"),
    ("hosts", "root", "hosts", "#hosts tbody"),
    ("host", "root", "hosts/host6", "#details .panel"),
    ("volumes", "root", "volumes", "#volumes tbody"),
    ("events", "root", "events", "#events tbody"),
    ("boot", "root", "boot", "#flavor option"),
    ("room", "root", "room", "#fits tbody tr:nth-child(4)"),
    ("upkeep", "root", "upkeep", "#balancing section"),
    ("use", "root", "use", "#use-instances p"),
    ("project", "alice", "overview", "#quotas .card"),
)
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}
THEMES = ("light", "dark")
#: Colours of a picture: they are few, and a manual is downloaded often.
_COLOURS = 128
_SETTLED_MS = 1200


def take(url: str, passwords: dict[str, str], names: dict[str, str], directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the file of each picture, ``VIEW-THEME[-narrow].png``.

    :param names: what stands for ``{failed}`` and the like in VIEWS
    """
    with sync_api.sync_playwright() as driver:
        browser = browsers.launch(driver)
        for theme in THEMES:
            for size, (width, height) in SIZES.items():
                for name, user, view, there in VIEWS:
                    context = browser.new_context(
                        viewport={"width": width, "height": height},
                        color_scheme="dark" if theme == "dark" else "light",
                        http_credentials={"username": user, "password": passwords[user]},
                        timezone_id="UTC",
                    )
                    tab = context.new_page()
                    tab.goto(f"{url}/ui/#{view.format(**names)}")
                    sync_api.expect(tab.locator(there).first).not_to_be_empty(timeout=60_000)
                    if name == "boot":
                        _explain(tab)
                    tab.wait_for_timeout(_SETTLED_MS)
                    path = directory / f"{name}-{theme}{'-narrow' if size == 'narrow' else ''}.png"
                    _save(tab.screenshot(), path)
                    context.close()
                    yield path
        browser.close()


def _explain(tab: sync_api.Page) -> None:
    tab.fill("#name", "web")
    tab.click("#explain")
    sync_api.expect(tab.locator("#answer h2")).to_contain_text("would go to", timeout=60_000)


def _save(picture: bytes, path: pathlib.Path) -> None:
    found = Image.open(io.BytesIO(picture)).convert("RGB")
    found.quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
