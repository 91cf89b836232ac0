# SPDX-License-Identifier: Apache-2.0
"""A private server process: its directory, its user, its log, and its start, stop and kill.

The servers beside it inherit from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import psutil

#: Seconds to wait for a server that starts slowly, as on a busy machine. One that has ended is noticed at once.
_START_TIMEOUT_S = 300
_STOP_TIMEOUT_S = 20
#: Below the ports that Linux gives to connections.
_PORTS = range(20_000, 32_000)
#: Descriptors of the locked files of this process's ports. They stay open until the process ends; Python would warn of file
#: objects that are left open.
_locked: list[int] = []


class ServerMissing(Exception):
    """The server is not installed. The message has the Debian package."""


class ServerFailed(Exception):
    """The server did not start. The message ends with the last lines of its log."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A server's directory, and the user that runs it (None: the present user)."""

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
        """Write a file that only the server's user may read."""
        path = self.write(name, text)
        os.chmod(path, 0o600)
        if self.user:
            shutil.chown(path, self.user, self._group())
        return path

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a program to its end; return its output. :raises ServerFailed:"""
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
        """Start a server in a session of its own, so that Ctrl-C in the terminal reaches this process only."""
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
    """PEM texts of a server's certificate and key."""

    chain: str
    key: str

    def files(self, place: Place) -> tuple[str, str]:
        """Return paths of chain and key in the server's place."""
        return place.write_secret("server.pem", self.chain), place.write_secret("server.key", self.key)


class PrivateServer:
    """A program in a place of its own. It may be stopped or killed, and restarted on the same data."""

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
        self._hanging: list[psutil.Process] = []

    def start(self) -> None:
        """Start, and return when the server answers. :raises ServerFailed:"""
        self._process = self.place.spawn(self._command, self._environment)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"{self._command[0]} did not start:\n{self.place.log_end()}")
            time.sleep(0.1)

    @property
    def is_running(self) -> bool:
        """True if the program was started and has not ended; a stopped process (SIGSTOP) has not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The pid while the program runs."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop the program, first by its stop signal. All its processes end."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(self._stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT_S)
            self.kill()

    def kill(self) -> None:
        """Kill the program and all its processes (kill -9). They have ended when this returns.

        A process of a PostgreSQL server that is still there keeps the next start from the data.
        """
        if self._process is not None:
            family = _family(self._process.pid) if self._process.poll() is None else []
            for each in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            while not all(map(_has_ended, family)):
                time.sleep(0.01)
            self._process, self._hanging = None, []

    @property
    def may_answer(self) -> bool:
        """Return True if it runs and was not made to hang."""
        return self.is_running and not self._hanging

    def hang(self) -> None:
        """Stop all its processes (SIGSTOP). The kernel still accepts connections in their place."""
        self._hanging = _family(self.pid)
        for each in self._hanging:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.suspend()

    def resume(self) -> None:
        """Let all its processes go on (SIGCONT)."""
        hanging, self._hanging = self._hanging, []
        for each in hanging:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start now, and stop in any case."""
        try:
            self.start()
            yield
        finally:
            self.stop()


def _family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants. They stop, so that they start no more."""
    try:
        program = psutil.Process(pid)
        program.suspend()
        return [program, *program.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextlib.contextmanager
def place(name: str, user: str | None) -> Iterator[Place]:
    """Create a directory for ``name`` and remove it afterwards. It is in the system's temporary directory, which other
    users can enter.

    :raises ServerMissing: there is no such user
    """
    owner = user if user and os.geteuid() == 0 else None
    if owner:
        _require_user(name, owner)
    directory = tempfile.mkdtemp(prefix=f"fleet-{name}-")
    try:
        if owner:
            shutil.chown(directory, owner, pwd.getpwnam(owner).pw_gid)
        yield Place(directory, owner)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _require_user(server: str, name: str) -> None:
    """:raises ServerMissing: the server refuses to run as root, and its system user does not exist"""
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise ServerMissing(
            f"{server} does not run as root, and its system user {name} does not exist: create it (useradd --system "
            f"{name}), or run this as another user"
        ) from None


def find(program: str, directories: Sequence[str], package: str) -> str:
    found = shutil.which(program, path=os.pathsep.join([*directories, os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if found is None:
        raise ServerMissing(f"{program} is not installed (Debian package {package})")
    return found


def free_ports(count: int) -> list[int]:
    """Return free ports. A server opens its port only some seconds later.

    Meanwhile this function gives them to no process, and Linux to no connection.
    """
    found: list[int] = []
    candidates = random.SystemRandom().sample(_PORTS, len(_PORTS))
    while len(found) < count:
        port = candidates.pop()
        if _lock(port) and _is_free(port):
            found.append(port)
    return found


def _lock(port: int) -> bool:
    """Lock the port's file until this process ends. Return False if it is locked already."""
    directory = pathlib.Path(tempfile.gettempdir()) / f"fleet-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    file = os.open(directory / str(port), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _locked.append(file)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
