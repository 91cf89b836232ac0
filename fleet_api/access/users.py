# SPDX-License-Identifier: Apache-2.0
"""Users of ``auth_strategy = http_basic``: their passwords, and the project and roles of each.

Called by :mod:`fleet_api.access.identity` and :mod:`fleet_api.access.tokens`.

Passwords are in an htpasswd file with bcrypt hashes, as ``htpasswd -B -C 10`` writes it. Projects and roles are in a second
file, one section per user::

    [alice]
    project = web
    roles = member

A user without a section belongs to the project of the same name, as member. Both files are read again when they change.
"""

from __future__ import annotations

import configparser
import dataclasses
import functools
import hashlib
import os
import pathlib
import re
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import bcrypt
from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)

ROLES = ("reader", "member", "admin")
_DEFAULT_ROLES = ("member",)
#: bcrypt takes tens of milliseconds on purpose. A password that was right is remembered for so many seconds.
_REMEMBERED_S = 60.0
_MOST_REMEMBERED = 1000
#: Kind, cost, salt and hash.
_HASH = re.compile(r"\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}")
#: Costs that a hash may have: a guess takes 2 ** cost rounds. ``htpasswd -B`` alone writes 5.
LEAST_COST, MOST_COST = 10, 15
#: Passwords that are compared at a time, which takes a processor each; and seconds that others wait for a place.
_PLACES, _WAIT_S = 2, 2.0


class Busy(Exception):
    """Too many passwords are being compared."""


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    project: str
    roles: Sequence[str]


@dataclasses.dataclass(frozen=True)
class _Known:
    """The contents of both files."""

    hashes: Mapping[str, bytes]
    users: Mapping[str, User]

    @property
    def highest_cost(self) -> int:
        return max(map(_cost, self.hashes.values()))


class Users:
    """``_lock`` guards what is remembered; ``_admitted`` bounds the threads that wait for a comparison or do one."""

    def __init__(
        self,
        passwords: pathlib.Path,
        projects: pathlib.Path | None,
        clock: Callable[[], float] = time.monotonic,
        threads: int = 8,
    ) -> None:
        """:param threads: of the server; some always stay free for requests whose password is remembered

        :raises errors.ConfigError: a file cannot be used
        """
        self._admitted = threading.Semaphore(max(1, threads - 2))
        self._places = threading.Semaphore(_PLACES)
        self._passwords = passwords
        self._projects = projects
        self._clock = clock
        self._lock = threading.Lock()
        self._salt = os.urandom(16)
        self._remembered: dict[bytes, float] = {}
        self._seen = self._stamp()
        self._known = self._read()

    def authenticate(self, name: str, password: bytes) -> User | None:
        """Return the user; None if the name is unknown, or the password is wrong, which take equally long.

        :raises Busy: no place to compare the password is free
        """
        known = self._newest()
        crypted = known.hashes.get(name)
        key, now = self._key(name, password, crypted), self._clock()
        with self._lock:
            is_right = self._remembered.get(key, 0.0) > now
        if not is_right:
            is_right = self._compare(password, crypted, known.highest_cost)
            if is_right:
                self._remember(key, now)
        return known.users.get(name) or User(name, name, _DEFAULT_ROLES) if is_right else None

    def is_remembered(self, name: str, password: bytes) -> bool:
        """Return True if the password was right a short while ago: then nothing needs to be compared."""
        key, now = self._key(name, password, self._newest().hashes.get(name)), self._clock()
        with self._lock:
            return self._remembered.get(key, 0.0) > now

    def _key(self, name: str, password: bytes, crypted: bytes | None) -> bytes:
        return hashlib.sha256(self._salt + (crypted or b"") + name.encode() + b"\0" + password).digest()

    def _compare(self, password: bytes, crypted: bytes | None, highest_cost: int) -> bool:
        """:raises Busy:"""
        if not self._admitted.acquire(timeout=_WAIT_S):
            raise Busy
        try:
            with self._places:
                return is_password(password, crypted, highest_cost)
        finally:
            self._admitted.release()

    def _remember(self, key: bytes, now: float) -> None:
        with self._lock:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = now + _REMEMBERED_S

    def _newest(self) -> _Known:
        """Read the files again if they have changed. A file that cannot be used leaves what was read before."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._known = self._read()
            except errors.ConfigError as wrong:
                LOG.error("%s The users that were read before stay valid.", wrong.message)
        return self._known

    def _stamp(self) -> list[tuple[int, int] | None]:
        return [_changed_at(each) for each in (self._passwords, self._projects)]

    def _read(self) -> _Known:
        return _Known(_read_passwords(self._passwords), _read_projects(self._projects) if self._projects else {})


def is_password(password: bytes, crypted: bytes | None, highest_cost: int) -> bool:
    """Compare in 2 ** highest_cost rounds, whatever the cost of the hash, and also if there is none.

    So the time of an answer does not show which names exist. With c for the cost of the hash, the rounds missing are
    those of one comparison each with the costs c, c + 1 … highest_cost - 1.
    """
    # bcrypt refuses more than 72 bytes; the rest of a longer password has never counted.
    password = password[:72]
    if crypted is None:
        bcrypt.checkpw(password, _nobody(highest_cost))
        return False
    is_right = bcrypt.checkpw(password, crypted)
    for cost in range(_cost(crypted), highest_cost):
        bcrypt.checkpw(password, _nobody(cost))
    return is_right


@functools.cache
def _nobody(cost: int) -> bytes:
    """Return a hash that no password has, made without the work of making one."""
    return b"$2b$%02d$%s" % (cost, b"." * 53)


def _cost(crypted: bytes) -> int:
    return int(crypted[4:6])


def _changed_at(path: pathlib.Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found else None


def _read_passwords(path: pathlib.Path) -> dict[str, bytes]:
    """:raises errors.ConfigError:"""
    hashes = {}
    for number, line in enumerate(_text(path, "basic_auth_file", secret=True).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, crypted = line.strip().partition(":")
        if not colon or not name or not _HASH.fullmatch(crypted):
            raise _wrong(
                "basic_auth_file",
                f"is {path}, whose line {number} is not NAME:HASH with a bcrypt hash (htpasswd -B -C 10)",
            )
        if not LEAST_COST <= _cost(crypted.encode()) <= MOST_COST:
            allowed = f"must be {LEAST_COST} to {MOST_COST}: htpasswd -B -C {LEAST_COST} {path} {name}"
            raise _wrong(
                "basic_auth_file",
                f"is {path}: in line {number} the bcrypt cost of {name} is {crypted[4:6]}, and it {allowed}",
            )
        hashes[name] = crypted.encode()
    if not hashes:
        raise _wrong("basic_auth_file", f"is {path}, which has no users")
    return hashes


def _read_projects(path: pathlib.Path) -> dict[str, User]:
    """:raises errors.ConfigError:"""
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    try:
        parser.read_string(_text(path, "projects_file"))
    except configparser.Error as wrong:
        raise _wrong("projects_file", f"is {path}, which cannot be parsed: {wrong.message.splitlines()[0]}") from None
    users = {}
    for name in parser.sections():
        section = parser[name]
        if unknown := set(section) - {"project", "roles"}:
            raise _wrong(
                "projects_file", f"is {path}: in section {name} {', '.join(sorted(unknown))} is not project or roles"
            )
        roles = section.get("roles", ",".join(_DEFAULT_ROLES)).replace(",", " ").split()
        if wrong_roles := [each for each in roles if each not in ROLES]:
            raise _wrong(
                "projects_file", f"is {path}: in section {name} {wrong_roles[0]} is not one of {', '.join(ROLES)}"
            )
        users[name] = User(name, section.get("project", name), roles)
    return users


def _text(path: pathlib.Path, option: str, secret: bool = False) -> str:
    """:raises errors.ConfigError: it cannot be read, or others may read secrets in it"""
    try:
        if secret and path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
            raise _wrong(
                option, f"names {path}, which can be read or written by every user of this machine: chmod o-rw"
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        reason = unreadable.strerror if isinstance(unreadable, OSError) else "it is not UTF-8"
        raise _wrong(option, f"names {path}, which cannot be read: {reason}") from None


def _wrong(option: str, reason: str) -> errors.ConfigError:
    return errors.ConfigError(option=f"[api] {option}", reason=reason)
