# SPDX-License-Identifier: Apache-2.0
"""A private keystone: the released package, with fernet tokens and the administrator of its bootstrap."""

from __future__ import annotations

import contextlib
import dataclasses
import grp
import os
import pathlib
import pwd
from collections.abc import Iterator, Mapping

import requests

from fleet_trial.private_servers.process import Place, PrivateServer, free_ports, place

ADMIN, PASSWORD, REGION = "admin", "of admin", "one"
#: The user of ``fleet-api``, and its project.
SERVICE_USER, SERVICE_PASSWORD, SERVICE_PROJECT = "fleet", "of fleet", "service"
_PROGRAM = pathlib.Path(__file__).parent / "programs" / "keystone_server.py"
_CONFIGURATION = """\
[DEFAULT]
log_file = {log}
[database]
connection = {database}
[fernet_tokens]
key_repository = {directory}/fernet-keys
[fernet_receipts]
key_repository = {directory}/fernet-keys
[credential]
key_repository = {directory}/credential-keys
[identity]
# Tempest makes hundreds of users; the hashes protect nothing here.
password_hash_rounds = 4
[oslo_policy]
enforce_scope = true
enforce_new_defaults = true
"""


@dataclasses.dataclass(frozen=True)
class Keystone:
    """``url`` ends in ``/v3``."""

    url: str
    _session: requests.Session

    def register(self, kind: str, url: str) -> None:
        """Add a service with its public, internal and admin endpoint to the catalog."""
        service = self._made("services", "service", {"type": kind, "name": f"fleet-{kind}"})
        for face in ("public", "internal", "admin"):
            endpoint = {"service_id": service, "interface": face, "region_id": REGION, "url": url}
            self._made("endpoints", "endpoint", endpoint)

    def add_service_user(self) -> None:
        """Add the user with which ``fleet-api`` checks tokens."""
        project = self._made("projects", "project", {"name": SERVICE_PROJECT, "domain_id": "default"})
        user = {"name": SERVICE_USER, "password": SERVICE_PASSWORD, "domain_id": "default"}
        where = f"projects/{project}/users/{self._made('users', 'user', user)}"
        self._session.put(f"{self.url}/{where}/roles/{self._role('service')}", timeout=60).raise_for_status()

    def sign_in(self) -> None:
        """Send all further requests as the administrator."""
        domain = {"name": "Default"}
        user = {"name": ADMIN, "password": PASSWORD, "domain": domain}
        identity = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": ADMIN, "domain": domain}}
        body = {"auth": {"identity": identity, "scope": scope}}
        answer = self._session.post(f"{self.url}/auth/tokens", json=body, timeout=60)
        answer.raise_for_status()
        self._session.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]

    def _role(self, name: str) -> str:
        found = self._session.get(f"{self.url}/roles", params={"name": name}, timeout=60).json()["roles"]
        return str(found[0]["id"]) if found else self._made("roles", "role", {"name": name})

    def _made(self, path: str, key: str, wanted: Mapping[str, str]) -> str:
        answer = self._session.post(f"{self.url}/{path}", json={key: dict(wanted)}, timeout=60)
        answer.raise_for_status()
        return str(answer.json()[key]["id"])


@contextlib.contextmanager
def keystone(venv: pathlib.Path, database: str, log: pathlib.Path) -> Iterator[Keystone]:
    """Run the keystone that is installed in a virtual environment.

    :param database: URL of an empty database; requests at the same time would lock each other out of an SQLite file
    :raises private_servers.ServerFailed:
    """
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/v3"
    with place("keystone", user=None) as here, requests.Session() as session:
        configuration = here.write(
            "keystone.conf", _CONFIGURATION.format(directory=here.directory, database=database, log=log)
        )
        _bootstrap(here, venv, configuration, url)
        command = [str(venv / "bin/python"), str(_PROGRAM), configuration, str(port)]
        with PrivateServer(here, command, {}, lambda: _answers(url)).running():
            made = Keystone(url, session)
            made.sign_in()
            made.add_service_user()
            yield made


def _bootstrap(here: Place, venv: pathlib.Path, configuration: str, url: str) -> None:
    manage = [str(venv / "bin/keystone-manage"), "--config-file", configuration]
    here.run([*manage, "db_sync"])
    owner = [
        "--keystone-user",
        pwd.getpwuid(os.geteuid()).pw_name,
        "--keystone-group",
        grp.getgrgid(os.getegid()).gr_name,
    ]
    for keys in ("fernet_setup", "credential_setup"):
        here.run([*manage, keys, *owner])
    words = {
        "password": PASSWORD,
        "username": ADMIN,
        "project-name": ADMIN,
        "region-id": REGION,
        "public-url": url,
        "internal-url": url,
        "admin-url": url,
    }
    here.run([*manage, "bootstrap", *(f"--bootstrap-{name}={word}" for name, word in words.items())])


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.ConnectionError:
        return False
