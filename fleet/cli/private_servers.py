# SPDX-License-Identifier: Apache-2.0
"""A broker and databases of one's own, for tests and for trying the service: started on request, stopped afterwards.

Nothing of the system's own servers is touched: each has a free port or a socket, a directory and a name of its own. As
root they run as the user that their package made, because they refuse to run as root.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import amqp
import sqlalchemy as sa

_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 20


class ServerMissing(Exception):
    """The server is not installed; the message says which Debian package has it."""


class ServerFailed(Exception):
    """The server did not come up; the message ends with the last lines of its log."""


@dataclasses.dataclass(frozen=True)
class _Place:
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

    def run(self, command: Sequence[str]) -> None:
        """Run a program to its end. :raises ServerFailed:"""
        done = subprocess.run(
            command,
            cwd=self.directory,
            capture_output=True,
            text=True,
            user=self.user,
            group=self._group(),
            extra_groups=[] if self.user else None,
            check=False,
        )
        if done.returncode:
            raise ServerFailed(f"{command[0]} failed: {done.stderr.strip()[-2000:]}")

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


@contextlib.contextmanager
def rabbitmq() -> Iterator[str]:
    """A RabbitMQ node; yields its transport URL."""
    program = _find("rabbitmq-server", ["/usr/lib/rabbitmq/bin"], package="rabbitmq-server")
    port, dist_port, epmd_port = _free_ports(3)
    password = secrets.token_hex(16)
    with _place("rabbitmq", user=None) as place:
        environment = {
            "HOME": place.directory,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_NODENAME": f"fleet-{port}@localhost",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_MNESIA_BASE": place.path("mnesia"),
            "RABBITMQ_LOG_BASE": place.path("log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": place.path("pid"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": place.write("rabbitmq.conf", f"default_pass = {password}\n"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": place.write("enabled_plugins", "[].\n"),
            # A test node needs no more, and busy-waiting schedulers would take the machine from what is tested.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
        }
        process = place.spawn([program], environment)
        try:
            with _running(place, process, signal.SIGTERM):
                _wait_until(place, process, lambda: _amqp_answers(port, password))
                yield f"rabbit://guest:{password}@127.0.0.1:{port}/"
        finally:
            # The node's own port mapper, a daemon that would stay behind.
            subprocess.run(["epmd", "-port", str(epmd_port), "-kill"], capture_output=True, check=False)


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A PostgreSQL server; yields the URL of an empty database in it."""
    directories = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    initdb = _find("initdb", directories, package="postgresql")
    program = _find("postgres", directories, package="postgresql")
    with _place("postgresql", user="postgres") as place:
        data = place.path("data")
        place.run([initdb, "-D", data, "-U", "fleet", "--auth", "trust", "--no-sync", "-E", "UTF8", "--locale", "C"])
        # Reached through a socket in a directory that only this user may enter, hence "trust".
        options = {"listen_addresses": "", "unix_socket_directories": place.directory, "max_connections": "300"}
        options |= {"fsync": "off", "full_page_writes": "off"}  # nothing in it outlives us
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        process = place.spawn([program, "-D", data, *settings])
        with _running(place, process, signal.SIGINT):  # SIGTERM would wait for its clients
            base = f"postgresql+psycopg2://fleet@/{{}}?host={place.directory}"
            _wait_until(place, process, lambda: _database_answers(base.format("postgres")))
            _execute(base.format("postgres"), "CREATE DATABASE fleet")
            yield base.format("fleet")


@contextlib.contextmanager
def mariadb() -> Iterator[str]:
    """A MariaDB server; yields the URL of an empty database in it."""
    install = _find("mariadb-install-db", [], package="mariadb-server")
    program = _find("mariadbd", ["/usr/sbin"], package="mariadb-server")
    with _place("mariadb", user="mysql") as place:
        data, unix_socket = place.path("data"), place.path("socket")
        place.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
        )
        process = place.spawn(
            [
                program,
                "--no-defaults",
                f"--datadir={data}",
                f"--socket={unix_socket}",
                "--skip-networking",
                "--character-set-server=utf8mb4",
                "--max-connections=300",
                "--innodb-flush-log-at-trx-commit=0",  # nothing in it outlives us
            ]
        )
        with _running(place, process, signal.SIGTERM):
            base = f"mysql+pymysql://root@localhost/{{}}?unix_socket={unix_socket}&charset=utf8mb4"
            _wait_until(place, process, lambda: _database_answers(base.format("mysql")))
            _execute(base.format("mysql"), "CREATE DATABASE fleet")
            yield base.format("fleet")


#: By the name that ``make up`` takes.
BROKERS: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {"rabbit": rabbitmq}
DATABASES: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
}


@contextlib.contextmanager
def _place(name: str, user: str | None) -> Iterator[_Place]:
    """A directory for ``name``, gone afterwards; in the system's own place, as other users must be able to enter it."""
    directory = tempfile.mkdtemp(prefix=f"fleet-{name}-")
    try:
        owner = user if user and os.geteuid() == 0 else None
        if owner:
            shutil.chown(directory, owner, pwd.getpwnam(owner).pw_gid)
        yield _Place(directory, owner)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _running(place: _Place, process: subprocess.Popen, stop_signal: signal.Signals) -> Iterator[None]:
    """Stop ``process`` and all that it started, whatever happens."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(stop_signal)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until(place: _Place, process: subprocess.Popen, answers: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ServerFailed(f"{process.args[0]} did not start:\n{place.log_end()}")  # type: ignore[index]
        time.sleep(0.1)


def _amqp_answers(port: int, password: str) -> bool:
    try:
        connection = amqp.Connection(f"127.0.0.1:{port}", userid="guest", password=password, connect_timeout=1)
        connection.connect()
        connection.close()
    except (OSError, amqp.exceptions.AMQPError):
        return False
    return True


def _database_answers(url: str) -> bool:
    try:
        _execute(url, "SELECT 1")
    except sa.exc.SQLAlchemyError:
        return False
    return True


def _execute(url: str, statement: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(statement))


def _find(program: str, directories: Sequence[str], package: str) -> str:
    found = shutil.which(program, path=os.pathsep.join([*directories, os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if found is None:
        raise ServerMissing(f"{program} is not installed (Debian package {package})")
    return found


def _free_ports(count: int) -> list[int]:
    """Ports that are free now; all are held until all are known, so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
