# SPDX-License-Identifier: Apache-2.0
"""``auth_strategy = keystone`` with the real client, a browser and the ``fleet`` command. Keystone itself is a stub."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from playwright import sync_api

from tests.amqp import keystone as stub
from tests.amqp.daemons import Trio, eventually
from tests.amqp.keystone import USERS, Keystone, id_of
from tests.amqp.openstack_client import Client, runner


@pytest.fixture(scope="module")
def keystone() -> Iterator[Keystone]:
    with stub.serving() as keystone:
        yield keystone


@pytest.fixture(scope="module")
def url(trio: Trio, keystone: Keystone) -> Iterator[str]:
    """Where the API listens: on an address of its own, as its clients have tokens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    path, url = trio.directory / "keystone.conf", f"http://127.0.0.3:{port}"
    path.write_text(
        f"[api]\nport = {port}\nbind_host = 127.0.0.3\nauth_strategy = keystone\n"
        f"[keystone_authtoken]\nauth_type = password\nauth_url = {keystone.url}\nwww_authenticate_uri = {keystone.url}\n"
        "username = fleet\npassword = of fleet\nproject_name = service\n"
        "user_domain_name = Default\nproject_domain_name = Default\n"
    )
    keystone.endpoints = {"compute": f"{url}/v2.1", "block-storage": f"{url}/v3", "image": url}
    trio.start("keystone", "fleet-api", "--config-file", str(path))
    eventually(lambda: requests.get(url, timeout=5).ok, retry_on=OSError)
    yield url
    trio.stop("keystone")


def known(keystone: Keystone, name: str) -> dict[str, str]:
    return {
        "OS_AUTH_URL": keystone.url,
        "OS_USERNAME": name,
        "OS_PASSWORD": USERS[name][0],
        "OS_PROJECT_NAME": USERS[name][1],
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
        "OS_IDENTITY_API_VERSION": "3",
    }


@pytest.fixture(scope="module")
def openstack(url: str, trio: Trio, keystone: Keystone) -> Client:
    """Runs the client as a user of keystone: its password, and endpoints from the catalog."""
    runners = {name: runner(known(keystone, name)) for name in USERS}
    trio.cli("image", "create", "tokens", "--location", "/images/tokens.raw", "--min-disk", "1")
    runners["root"]("flavor create --ram 512 --disk 1 --vcpus 1 tokens")
    return lambda user, line, **how: runners[user](line, **how)


def token(keystone: Keystone, name: str, is_scoped: bool = True) -> str:
    """Return a new token of this user."""
    user = {"name": name, "password": USERS[name][0], "domain": {"name": "Default"}}
    asked: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": user}}}
    if is_scoped:
        asked["scope"] = {"project": {"name": USERS[name][1], "domain": {"name": "Default"}}}
    answer = requests.post(f"{keystone.url}/auth/tokens", json={"auth": asked}, timeout=30)
    return answer.headers["X-Subject-Token"]


def listed(url: str, token: str | None, **headers: str) -> requests.Response:
    return requests.get(f"{url}/v2.1/servers", headers=({"X-Auth-Token": token} if token else {}) | headers, timeout=60)


def test_the_story(openstack: Client) -> None:
    """A member boots; the project and the user are keystone's ids. A reader sees it; the administrator sees where it is."""
    made = openstack("alice", "server create --flavor tokens --image tokens --nic none --wait hers")
    assert ("ACTIVE", id_of("web"), id_of("alice")) == (made["status"], made["project_id"], made["user_id"])
    assert ["hers"] == [each["Name"] for each in openstack("rita", "server list")]
    openstack("rita", "server delete hers", form="", status=1)
    openstack("alice", "hypervisor list", status=1)
    (seen,) = openstack("root", "server list --all-projects --long")
    assert ("hers", True) == (seen["Name"], seen["Host"] in ("a1", "a2", "a3", "b1", "b2", "b3"))
    assert ["hers"] == [each["Name"] for each in openstack("root", "server list --project web")]
    openstack("alice", "server delete --wait hers", form="")


@pytest.mark.parametrize(
    "line",
    ["quota show --compute", "limits show --absolute", "volume list", "image list", "flavor list", "token issue"],
)
def test_endpoints_from_the_catalog(openstack: Client, line: str) -> None:
    assert openstack("alice", line) is not None


def test_a_quota_of_a_project_by_its_name(openstack: Client) -> None:
    """The client asks keystone for the project's id."""
    openstack("root", "quota set --cores 7 web", form="")
    shown = openstack("alice", "quota show --compute web")
    assert 7 == {each["Resource"]: each["Limit"] for each in shown}["cores"]


def test_tokens(url: str, keystone: Keystone) -> None:
    """One that keystone does not know, or has forgotten, is refused; headers of the sender's own count for nothing."""
    for wrong in (None, "guess", "x" * 3000, "\u00e9"):
        answer = listed(url, wrong.encode() if wrong else None)  # type: ignore[arg-type]
        assert (401, f'Keystone uri="{keystone.url}"') == (answer.status_code, answer.headers["WWW-Authenticate"]), (
            wrong
        )
    forged = {"X-Identity-Status": "Confirmed", "X-User-Id": "u", "X-Project-Id": "web", "X-Roles": "admin"}
    assert 401 == listed(url, None, **forged).status_code
    hers = token(keystone, "alice")
    assert 200 == listed(url, hers).status_code
    assert (
        403 == requests.get(f"{url}/fleet/v1/hosts", headers={"X-Auth-Token": hers, **forged}, timeout=60).status_code
    )
    unscoped = listed(url, token(keystone, "alice", is_scoped=False))
    assert (403, True) == (unscoped.status_code, "of no project" in unscoped.text)


def test_keystone_is_asked_once_about_a_token(url: str, keystone: Keystone) -> None:
    hers = token(keystone, "alice")
    before = keystone.checked
    for _ in range(5):
        assert 200 == listed(url, hers).status_code
    assert 1 == keystone.checked - before


def test_keystone_is_away(url: str, keystone: Keystone) -> None:
    """A token that is known still counts; another one gets 503, and discovery needs none."""
    hers, other = token(keystone, "alice"), token(keystone, "rita")
    assert 200 == listed(url, hers).status_code
    keystone.is_away = True
    try:
        assert 200 == listed(url, hers).status_code
        assert (503, True) == ((answer := listed(url, other)).status_code, "eystone" in answer.text)
        assert 200 == requests.get(f"{url}/v2.1/", timeout=60).status_code
    finally:
        keystone.is_away = False
    assert 200 == listed(url, other).status_code


def test_the_fleet_command(trio: Trio, url: str, keystone: Keystone, openstack: Client) -> None:
    """With a token, as member; without one it says what to do."""
    known = {"FLEET_URL": url, "FLEET_TOKEN": token(keystone, "alice")}
    assert "tokens" in trio.cli("flavor", "list", **known).stdout
    assert "403" in trio.cli("host", "list", **known).stderr
    assert "FLEET_TOKEN" in trio.cli("flavor", "list", FLEET_URL=url).stderr


def test_the_page(browser: sync_api.Browser, url: str, openstack: Client) -> None:
    """A wrong password shows an error. After signing in, map and events work; after signing out, the form is back."""
    tab = browser.new_page()
    expect = lambda selector, text: sync_api.expect(tab.locator(selector)).to_contain_text(text, timeout=60_000)  # noqa: E731
    tab.goto(f"{url}/ui/")
    expect("#sign-in", "Domain")
    for password in ("guess", "of root"):
        tab.fill("#username", "root")
        tab.fill("#password", password)
        tab.fill("#project", "ops")
        tab.click("#sign-in button")
        expect(*(("#sign-in", "is wrong") if password == "guess" else ("#status", "6 hosts, 6 up")))
    (cookie,) = tab.context.cookies()
    assert (True, "Strict", "/fleet/v1") == (cookie["httpOnly"], cookie["sameSite"], cookie["path"])
    assert "" == tab.evaluate("document.cookie")
    tab.goto(f"{url}/ui/#events")
    expect("#status", "live")
    tab.click("#sign-out")
    expect("#sign-in", "Domain")
    assert [] == tab.context.cookies()
    tab.close()
