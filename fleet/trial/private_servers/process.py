# SPDX-License-Identifier: Apache-2.0
"""A server process of one's own: its directory, its user, its log, and the way it is started, stopped and killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 20


class ServerMissing(Exception):
    """The server is not installed; the message says which Debian package has it."""


class ServerFailed(Exception):
    """The server did not come up; the message ends with the last lines of its log."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A directory of a server's own, and the user that runs it (None: whoever we are)."""

    directory: str
    user: str | None

    def path(self, *parts: str) -> str:
        return os.path.join(self.directory, *parts)

    def write(self, name: str, text: str) -> str:
        path = self.path(name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def write_secret(self, name: str, text: str) -> str:
        """A file that only the server's user may read."""
        path = self.write(name, text)
        os.chmod(path, 0o600)
        if self.user:
            shutil.chown(path, self.user, self._group())
        return path

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a program to its end; returns what it printed. :raises ServerFailed:"""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            user=self.user,
            group=self._group(),
            extra_groups=[] if self.user else None,
            check=False,
        )
        if done.returncode:
            raise ServerFailed(f"{command[0]} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def spawn(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen:
        """Start a server in a session of its own, so that Ctrl-C in the terminal reaches only us."""
        with open(self.path("server.log"), "ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                group=self._group(),
                extra_groups=[] if self.user else None,
                start_new_session=True,
            )

    def log_end(self) -> str:
        with open(self.path("server.log"), errors="replace") as log:
            return log.read()[-2000:]

    def _group(self) -> int | None:
        return pwd.getpwnam(self.user).pw_gid if self.user else None


@dataclasses.dataclass(frozen=True)
class Certificate:
    """PEM texts of a server's certificate with its key."""

    chain: str
    key: str

    def files(self, place: Place) -> tuple[str, str]:
        """Paths of chain and key, in the server's place."""
        return place.write_secret("server.pem", self.chain), place.write_secret("server.key", self.key)


class PrivateServer:
    """A program in a place of its own; it may be stopped or killed, and started again on the same data."""

    def __init__(
        self,
        place: Place,
        command: Sequence[str],
        environment: Mapping[str, str],
        answers: Callable[[], bool],
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.place = place
        self._command = command
        self._environment = environment
        self._answers = answers
        self._stop_signal = stop_signal
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Return when it answers. :raises ServerFailed:"""
        self._process = self.place.spawn(self._command, self._environment)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"{self._command[0]} did not start:\n{self.place.log_end()}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        """Of the program, while it runs."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Gently at first; whatever it started ends with it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(self._stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT_S)
            self.kill()

    def kill(self) -> None:
        """kill -9, with all that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Started now, stopped whatever happens."""
        try:
            self.start()
            yield
        finally:
            self.stop()


@contextlib.contextmanager
def place(name: str, user: str | None) -> Iterator[Place]:
    """A directory for ``name``, gone afterwards; in the system's own place, as other users must be able to enter it."""
    directory = tempfile.mkdtemp(prefix=f"fleet-{name}-")
    try:
        owner = user if user and os.geteuid() == 0 else None
        if owner:
            shutil.chown(directory, owner, pwd.getpwnam(owner).pw_gid)
        yield Place(directory, owner)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def find(program: str, directories: Sequence[str], package: str) -> str:
    found = shutil.which(program, path=os.pathsep.join([*directories, os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if found is None:
        raise ServerMissing(f"{program} is not installed (Debian package {package})")
    return found


def free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until all are known, so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
