# SPDX-License-Identifier: Apache-2.0
"""The page of ``fleet-api`` in a real browser, headless Chromium: fixtures of the tests of its views."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import bcrypt
import pytest
import requests
from playwright import sync_api

from fleet.context import new_context
from tests.amqp.daemons import Trio, eventually

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
#: Project and role by user of :func:`people`.
PEOPLE = {"root": ("ops", "admin"), "alice": ("web", "member"), "rita": ("web", "reader"), "bob": ("lab", "member")}
#: Milliseconds; a machine may be slow.
PATIENCE_MS = 60_000


class Page:
    """The page in one browser tab. Nothing may be reported to its console, and no dialog of the browser may open."""

    def __init__(self, tab: sync_api.Page, url: str) -> None:
        self.tab = tab
        self.url = url
        self.said: list[str] = []
        self._expected: list[str] = []
        tab.on("console", lambda message: self.said.append(message.text))
        tab.on("pageerror", lambda failure: self.said.append(str(failure)))
        tab.on("dialog", self._opened)
        #: Calls of the page that have no answer yet.
        self._asked: set[sync_api.Request] = set()
        tab.on("request", self._begun)
        tab.on("requestfinished", self._ended)
        tab.on("requestfailed", self._ended)

    def _opened(self, dialog: sync_api.Dialog) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _begun(self, request: sync_api.Request) -> None:
        # The stream of events never ends.
        if "/fleet/v1/" in request.url and "/fleet/v1/events" not in request.url:
            self._asked.add(request)

    def _ended(self, request: sync_api.Request) -> None:
        self._asked.discard(request)

    def hold(self) -> list[sync_api.Route]:
        """Let no call be answered from now on, and return a list that grows by each. Those before it have their answers."""
        held: list[sync_api.Route] = []
        self.tab.route("**/fleet/v1/**", lambda route: held.append(route))
        eventually(lambda: self._pumped() and self._asked <= {each.request for each in held})
        return held

    def _pumped(self) -> bool:
        """Let the events of the browser be heard."""
        self.tab.wait_for_timeout(1)
        return True

    def open(self, view: str = "") -> None:
        """Load the page anew, at this view."""
        self.tab.goto("about:blank")
        self.tab.goto(f"{self.url}/ui/{view}")

    def expect(self, selector: str, text: str | re.Pattern[str]) -> None:
        """Wait until an element has this text."""
        sync_api.expect(self.tab.locator(selector)).to_contain_text(text, timeout=PATIENCE_MS)

    def gone(self, selector: str) -> None:
        """Wait until there is no such element that can be seen."""
        sync_api.expect(self.tab.locator(selector)).to_be_hidden(timeout=PATIENCE_MS)

    def count(self, selector: str, count: int) -> None:
        sync_api.expect(self.tab.locator(selector)).to_have_count(count, timeout=PATIENCE_MS)

    def press(self, name: str) -> None:
        """Click the button with this text."""
        self.tab.get_by_role("button", name=name, exact=True).click(timeout=PATIENCE_MS)

    def answer(self, verb: str) -> None:
        """Click a button of the dialog that is open."""
        self.tab.locator("dialog").get_by_role("button", name=verb, exact=True).click(timeout=PATIENCE_MS)

    def tabs(self) -> list[str]:
        """The views that the navigation offers."""
        self.tab.wait_for_selector("#nav a", timeout=PATIENCE_MS)
        return self.tab.locator("#nav a").all_inner_texts()

    def forgive(self, *words: str) -> None:
        """Leave out what the console says of requests that a test makes fail."""
        self._expected += words

    @property
    def complaints(self) -> list[str]:
        """What the console has said, and no test expects."""
        return [each for each in self.said if not any(word in each for word in self._expected)]


@pytest.fixture(scope="module")
def open_url(trio: Trio) -> Iterator[str]:
    """Of an API where everybody is the administrator."""
    yield from _started(trio, "page-api", "127.0.0.1", "")


@pytest.fixture
def page(browser: sync_api.Browser, open_url: str) -> Iterator[Page]:
    """Of the administrator."""
    tab = browser.new_page(viewport=WIDE)
    page = Page(tab, open_url)
    yield page
    tab.close()
    assert not page.complaints, page.complaints


@pytest.fixture(scope="module")
def people_url(trio: Trio) -> Iterator[str]:
    """Of an API with the users PEOPLE, each with the password ``of NAME``."""
    passwords, projects = trio.directory / "page-htpasswd", trio.directory / "page-projects.conf"
    hashed = {name: bcrypt.hashpw(f"of {name}".encode(), bcrypt.gensalt(10)).decode() for name in PEOPLE}
    passwords.write_text("".join(f"{name}:{text}\n" for name, text in hashed.items()))
    passwords.chmod(0o600)
    sections = [f"[{name}]\nproject = {project}\nroles = {role}\n" for name, (project, role) in PEOPLE.items()]
    projects.write_text("".join(sections))
    options = f"auth_strategy = http_basic\nbasic_auth_file = {passwords}\nprojects_file = {projects}\n"
    yield from _started(trio, "page-people", "127.0.0.2", options)


@pytest.fixture
def people(browser: sync_api.Browser, people_url: str) -> Iterator[Callable[[str], Page]]:
    """Opens a tab of one of PEOPLE."""
    opened: list[tuple[sync_api.BrowserContext, Page]] = []

    def of(name: str) -> Page:
        credentials: sync_api.HttpCredentials = {"username": name, "password": f"of {name}"}
        context = browser.new_context(viewport=WIDE, http_credentials=credentials)
        opened.append((context, Page(context.new_page(), people_url)))
        return opened[-1][1]

    yield of
    for context, _ in opened:
        context.close()
    complaints = [each for _, page in opened for each in page.complaints]
    assert not complaints, complaints


def _started(trio: Trio, name: str, address: str, options: str) -> Iterator[str]:
    with socket.create_server((address, 0)) as probe:
        port = probe.getsockname()[1]
    path = trio.directory / f"{name}.conf"
    path.write_text(f"[api]\nport = {port}\nbind_host = {address}\n{options}")
    trio.start(name, "fleet-api", "--config-file", str(path))
    url = f"http://{address}:{port}"
    eventually(lambda: requests.get(url, timeout=5).ok, retry_on=OSError)
    yield url
    trio.stop(name)


def boot_for(trio: Trio, project: str, **request: Any) -> list[str]:
    """Accept a request of a project; returns the uuids."""
    accepted = trio.tasks.create(new_context(project_id=project), request)
    return [each["uuid"] for each in accepted["instances"]]
