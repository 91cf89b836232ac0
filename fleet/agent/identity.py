# SPDX-License-Identifier: Apache-2.0
"""The identity of a host's agent: a uuid stored with the host's state, and a lock while a process serves the host.

Called by :mod:`fleet.agent.connection` and :mod:`fleet.agent.presence`. The uuid distinguishes a restarted agent from
an agent on another machine with the same host name. The lock separates two processes on one machine; it ends with its
process in any case. Processes that hold the same identity one after the other are its lives, and are counted: a late
message of a former life is recognised.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import resource
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, NamedTuple
from urllib import parse

from fleet import errors
from fleet.clock import utcnow
from fleet.json_codec import JSONObject

#: Directory below that of the agent's state.
DIRECTORY = "hosts"
#: Descriptors that an agent needs for each host, and for itself.
FILES_A_HOST, FILES_BESIDES = 4, 512


class Identity(NamedTuple):
    """``life`` counts the processes that have held the identity, from 1."""

    uuid: str
    life: int


class Identities(Mapping[str, Identity]):
    """The identities of the hosts of one process, held until ``release``."""

    def __init__(self, held: dict[str, tuple[Identity, IO[str]]]) -> None:
        self._held = held

    def __getitem__(self, host: str) -> Identity:
        return self._held[host][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def ledger(self) -> str | None:
        """Return the ledger that the hosts belong to; None before their registration.

        :raises errors.ConfigError: the hosts belong to different ledgers
        """
        by_ledger = {found: host for host, (_uuid, file) in self._held.items() if (found := _read(file).get("ledger"))}
        if len(by_ledger) > 1:
            said = ", ".join(f"{host} belongs to ledger {ledger}" for ledger, host in sorted(by_ledger.items()))
            raise errors.ConfigError(
                option="host", reason=f"names hosts of several ledgers, and one process serves those of one: {said}"
            )
        return next(iter(by_ledger), None)

    def remember_ledger(self, ledger: str) -> None:
        """Store with each host the ledger that it belongs to."""
        for _uuid, file in self._held.values():
            known = _read(file)
            if known.get("ledger") != ledger:
                _write(file, {**known, "ledger": ledger})

    def release(self) -> None:
        for _uuid, file in self._held.values():
            file.close()


def hold(path: str, hosts: Sequence[str], option: str = "instances_path") -> Identities:
    """Lock the identities of ``hosts``, creating missing ones.

    :param path: directory of the agent's state, which ``option`` names

    :raises errors.HostTaken: another process on this machine serves one of them
    :raises errors.ConfigError: the files cannot be written
    """
    _allow_files(len(hosts))
    with contextlib.ExitStack() as undo:
        held = {}
        for host in hosts:
            file = undo.enter_context(_open(path, host, option))
            try:
                held[host] = (_take(file, host), file)
            except OSError as full:
                raise errors.ConfigError(option=option, reason=f"cannot be written: {full}") from None
        undo.pop_all()
        return Identities(held)


@contextlib.contextmanager
def held(path: str, hosts: Sequence[str], option: str = "instances_path") -> Iterator[Identities]:
    """Do :meth:`hold` for the duration of a ``with``."""
    identities = hold(path, hosts, option)
    try:
        yield identities
    finally:
        identities.release()


def _open(directory: str, host: str, option: str) -> IO[str]:
    path = pathlib.Path(directory) / DIRECTORY / f"{parse.quote(host, safe='')}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+", encoding="utf-8")
    except OSError as denied:
        raise errors.ConfigError(option=option, reason=f"cannot be written: {denied}") from None


def _take(file: IO[str], host: str) -> Identity:
    """Lock the file and write this process to it as the next life of the identity, which is new if there is none."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found = _read(file)
        holder = {key: found.get(key, "?") for key in ("pid", "identity", "started_at")}
        raise errors.HostTaken(host=host, hostname=socket.gethostname(), **holder) from None
    known = _read(file)
    identity = Identity(known.get("identity") or str(uuid.uuid4()), known.get("life", 0) + 1)
    started_at = f"{utcnow().replace(tzinfo=datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    mine = {"identity": identity.uuid, "life": identity.life, "pid": os.getpid(), "started_at": started_at}
    _write(file, {**known, **mine})
    return identity


def _write(file: IO[str], values: Mapping[str, object]) -> None:
    """Replace the content by one write, so that a full disk or a killed process leaves the former identity.

    The lock is on the file: another one cannot take its name. Blanks cover what is left of a longer content.

    :raises OSError:
    """
    descriptor = file.fileno()
    content = json.dumps(values).encode()
    os.pwrite(descriptor, content.ljust(os.fstat(descriptor).st_size), 0)
    os.fsync(descriptor)


def _read(file: IO[str]) -> JSONObject:
    """Return the text that the last holder has written; empty if a crash has truncated it."""
    descriptor = file.fileno()
    try:
        found = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
        uuid.UUID(found["identity"])
        found["life"] = int(found.get("life", 0))
    except (ValueError, TypeError, KeyError):
        return {}
    return {key: found[key] for key in ("identity", "life", "pid", "started_at", "ledger") if key in found}


def _allow_files(hosts: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_BESIDES + FILES_A_HOST * hosts
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
