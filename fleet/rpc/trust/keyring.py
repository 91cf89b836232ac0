# SPDX-License-Identifier: Apache-2.0
"""The keys that sign messages: whose key each is, and which key to use for which receiver.

A line of the file is ``ID WHOSE SECRET``. WHOSE is ``service`` (conductors and schedulers), ``client`` (their callers),
``project:NAME`` (callers that act for one project), ``compute:HOST[,HOST…]`` (an agent of hosts) or
``volume:BACKEND[,BACKEND…]`` (an agent of storage backends). ``host:NAME[,NAME…]`` of earlier releases is a backend
where NAME has an ``@``, and a host otherwise. SECRET has at least 32 characters. Lines that begin with ``#`` are
comments. Called by :mod:`fleet.rpc.trust.signing`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping

from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)

SERVICE, CLIENT, PROJECT, HOST = "service", "client", "project:", "host:"
#: Kinds of agents: their topics.
COMPUTE, VOLUME = "compute", "volume"
KINDS = (COMPUTE, VOLUME)
MIN_SECRET = 32
#: File permissions that let others read the file: a reader could sign.
_OTHERS = 0o077
#: Seconds between two checks for a change of the file.
LOOK_EVERY_S = 5.0
_OPTION = "[message_signing] keys_file"


@dataclasses.dataclass(frozen=True)
class Key:
    """``hosts`` are the hosts and backends of an agent's key, ``project`` is that of a project's; empty for other keys."""

    key_id: str
    whose: str
    secret: bytes = dataclasses.field(repr=False)

    @functools.cached_property
    def agents(self) -> Mapping[str, frozenset[str]]:
        """The hosts or backends of the key by kind of agent; empty for a key that belongs to no agent."""
        word, _, names = self.whose.partition(":")
        if word in KINDS:
            return {word: frozenset(names.split(","))}
        if not self.whose.startswith(HOST):
            return {}
        backends = frozenset(name for name in names.split(",") if "@" in name)
        found = {COMPUTE: frozenset(names.split(",")) - backends, VOLUME: backends}
        return {kind: hosts for kind, hosts in found.items() if hosts}

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset().union(*self.agents.values())

    @property
    def project(self) -> str:
        return self.whose.removeprefix(PROJECT) if self.whose.startswith(PROJECT) else ""


def parse(text: str, path: str) -> dict[str, Key]:
    """Return the keys by id, in the file's order. :raises errors.ConfigError: naming the line"""
    keys: dict[str, Key] = {}
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        problem = _problem(parts, keys)
        if problem:
            raise errors.ConfigError(option=_OPTION, reason=f"names {path}, line {number}: {problem}")
        keys[parts[0]] = Key(parts[0], parts[1], parts[2].encode())
    if not keys:
        raise errors.ConfigError(option=_OPTION, reason=f"names {path}, which has no key")
    return keys


def _problem(parts: list[str], keys: Mapping[str, Key]) -> str:
    if len(parts) != 3:
        return "is not ID WHOSE SECRET"
    key_id, whose, secret = parts
    if key_id in keys:
        return f"key {key_id} is there already"
    if not _is_known(whose):
        return f"{whose} is none of service, client, project:NAME, compute:HOST, volume:BACKEND"
    return "" if len(secret) >= MIN_SECRET else f"the secret is shorter than {MIN_SECRET} characters"


def _is_known(whose: str) -> bool:
    word, _, names = whose.partition(":")
    if word in (*KINDS, HOST.removesuffix(":")):
        return "" not in names.split(",")
    return whose in (SERVICE, CLIENT) or (whose.startswith(PROJECT) and whose != PROJECT)


class Keyring:
    """The keys of a file, which is read again when it changes. The first key is the process's own.

    If a changed file cannot be used, the log has one line, and the previous keys stay in force.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        """:raises errors.ConfigError:"""
        self._path = path
        self._clock = clock
        self._read_at = self._stamp()
        self._keys = self._read()
        self._look_at = clock() + LOOK_EVERY_S

    def own(self) -> Key:
        return next(iter(self.keys().values()))

    def of_host(self, host: str, kind: str) -> Key | None:
        """Return the first key that the agent of ``host`` has, too. :param kind: one of KINDS"""
        return next((key for key in self.keys().values() if host in key.agents.get(kind, ())), None)

    def keys(self) -> Mapping[str, Key]:
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._look()
        return self._keys

    def _look(self) -> None:
        try:
            stamp = self._stamp()
            if stamp == self._read_at:
                return
            self._read_at = stamp
            self._keys = self._read()
        except errors.ConfigError as unusable:
            LOG.error("The previous keys stay in force: %s", unusable.message)
        else:
            LOG.info("Signing messages with key %s now; %d keys are loaded", self.own().key_id, len(self._keys))

    def _stamp(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError as lost:
            raise errors.ConfigError(
                option=_OPTION, reason=f"names {self._path}, which cannot be read: {lost.strerror}"
            ) from None
        if found.st_mode & _OTHERS:
            mode = f"{found.st_mode & 0o777:04o}"
            reason = f"names {self._path}, of mode {mode}: group and others must have no right. chmod 0600 {self._path}"
            raise errors.ConfigError(option=_OPTION, reason=reason)
        return found.st_mtime_ns, found.st_ino

    def _read(self) -> dict[str, Key]:
        try:
            with open(self._path) as file:
                return parse(file.read(), self._path)
        except (OSError, UnicodeDecodeError) as unreadable:
            reason = getattr(unreadable, "strerror", None) or "is not a text"
            raise errors.ConfigError(
                option=_OPTION, reason=f"names {self._path}, which cannot be read: {reason}"
            ) from None
