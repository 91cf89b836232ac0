# SPDX-License-Identifier: Apache-2.0
"""Who asks: users of the HTTP API with their passwords, and holders of keys that sign messages."""

from __future__ import annotations

import base64
import dataclasses
import pathlib
from collections.abc import Mapping

import bcrypt

#: The project that is attacked, and the one whose members attack it.
THEIRS, OURS = "shop", "web"
#: Theirs are all but the first.
HOSTS = ("quarry-one", "quarry-two", "quarry-three")
BACKENDS = ("vault-one@disks", "vault-two@disks")


@dataclasses.dataclass(frozen=True)
class Person:
    """``project`` None: nobody, without a password."""

    name: str
    project: str | None
    role: str

    @property
    def headers(self) -> dict[str, str]:
        if self.project is None:
            return {}
        credentials = base64.b64encode(f"{self.name}:of {self.name}".encode()).decode()
        return {"Authorization": f"Basic {credentials}"}


NOBODY = Person("nobody", None, "")
READER, MEMBER = Person("rhea", OURS, "reader"), Person("alma", OURS, "member")
THEIR_READER, OWNER, COLLEAGUE = (
    Person("rita", THEIRS, "reader"),
    Person("bertha", THEIRS, "member"),
    Person("bruno", THEIRS, "member"),
)
ADMINISTRATOR = Person("root", "ops", "admin")
EVERYBODY = (NOBODY, READER, MEMBER, THEIR_READER, OWNER, COLLEAGUE, ADMINISTRATOR)
#: They may see nothing of THEIRS.
STRANGERS = (NOBODY, READER, MEMBER)

#: By holder: whose key it is. An empty line is no key.
KEYS: Mapping[str, str] = {
    "service": "service",
    "client": "client",
    "project": f"project:{OURS}",
    **{host: f"compute:{host}" for host in HOSTS},
    **{backend: f"volume:{backend}" for backend in BACKENDS},
    "nobody": "",
}


def write_users(directory: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Return the files of passwords and of projects."""
    passwords, projects = directory / "htpasswd", directory / "projects.conf"
    known = [each for each in EVERYBODY if each.project]
    hashed = {each.name: bcrypt.hashpw(f"of {each.name}".encode(), bcrypt.gensalt(10)).decode() for each in known}
    passwords.write_text("".join(f"{name}:{text}\n" for name, text in hashed.items()))
    projects.write_text("".join(f"[{each.name}]\nproject = {each.project}\nroles = {each.role}\n" for each in known))
    passwords.chmod(0o600)
    return passwords, projects


def write_keys(directory: pathlib.Path) -> Mapping[str, str]:
    """Return the path of each holder's file; services have all keys."""
    lines = {holder: f"{holder} {whose} {holder[0] * 40}" for holder, whose in KEYS.items() if whose}
    files = {holder: [line] for holder, line in lines.items()} | {"service": list(lines.values())}
    paths = {"nobody": ""}
    for holder, of in files.items():
        path = directory / f"keys-{holder}"
        path.write_text("\n".join(of))
        path.chmod(0o600)
        paths[holder] = str(path)
    return paths
