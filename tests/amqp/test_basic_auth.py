# SPDX-License-Identifier: Apache-2.0
"""``fleet-api`` with users and projects, before the trio, and the real ``openstack`` client with a password."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import bcrypt
import pytest
import requests

from tests.amqp.daemons import Trio, eventually
from tests.amqp.openstack_client import Client, runner


@pytest.fixture(scope="module")
def url(trio: Trio) -> Iterator[str]:
    """Where the API listens: on all addresses, as its clients have passwords."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    passwords, projects, path = (trio.directory / name for name in ("htpasswd", "projects.conf", "basic.conf"))
    hashed = {
        name: bcrypt.hashpw(f"of {name}".encode(), bcrypt.gensalt(10)).decode() for name in ("alice", "bob", "root")
    }
    passwords.write_text("".join(f"{name}:{text}\n" for name, text in hashed.items()))
    passwords.chmod(0o600)
    projects.write_text("[alice]\nproject = web\n[root]\nproject = ops\nroles = admin\n")
    path.write_text(
        f"[api]\nport = {port}\nbind_host = 127.0.0.2\nauth_strategy = http_basic\n"
        f"basic_auth_file = {passwords}\nprojects_file = {projects}\n"
    )
    trio.start("basic", "fleet-api", "--config-file", str(path))
    url = f"http://127.0.0.2:{port}"
    eventually(lambda: requests.get(url, timeout=5).ok, retry_on=OSError)
    yield url
    trio.stop("basic")


@pytest.fixture(scope="module")
def openstack(url: str, trio: Trio) -> Client:
    """Runs the client as a user, with the variables of the documentation."""
    runners = {
        user: runner(
            {
                "OS_AUTH_TYPE": "http_basic",
                "OS_USERNAME": user,
                "OS_PASSWORD": f"of {user}",
                "OS_ENDPOINT": f"{url}/v2.1",
                "OS_IDENTITY_ENDPOINT_OVERRIDE": f"{url}/v2.1",
                "OS_IDENTITY_API_VERSION": "3",
            }
        )
        for user in ("alice", "bob", "root")
    }
    trio.cli("image", "create", "basic-image", "--location", "/images/basic.raw", "--min-disk", "1")
    runners["root"]("flavor create --ram 512 --disk 1 --vcpus 1 basic")
    return lambda user, line, **how: runners[user](line, **how)


BOOT = "server create --flavor basic --image basic-image --nic none --wait"


def test_two_projects_and_an_administrator(openstack: Client) -> None:
    """Each project has its own servers. The administrator sees all, with their hosts."""
    made = openstack("alice", f"{BOOT} hers")
    assert ("ACTIVE", "web") == (made["status"], made["project_id"])
    assert ["hers"] == [each["Name"] for each in openstack("alice", "server list")]
    assert [] == openstack("bob", "server list")
    openstack("bob", f"server delete {made['id']}", status=1, form="")
    openstack("bob", "hypervisor list", status=1)
    openstack("alice", f"{BOOT} --host a1 forced", status=1)
    (seen,) = openstack("root", "server list --all-projects --long")
    assert ("hers", True) == (seen["Name"], seen["Host"] in ("a1", "a2", "a3", "b1", "b2", "b3"))
    openstack("alice", "server delete --wait hers", form="")
    assert [] == openstack("root", "server list --all-projects")


def test_a_wrong_password(url: str) -> None:
    """401 with the scheme, from any address."""
    answer = requests.get(f"{url}/v2.1/servers", auth=("alice", "guess"), timeout=30)
    assert (401, True) == (answer.status_code, "Basic" in answer.headers["WWW-Authenticate"])
    assert requests.get(f"{url}/v2.1/servers", auth=("alice", "of alice"), timeout=30).ok
