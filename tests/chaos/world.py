# SPDX-License-Identifier: Apache-2.0
"""The world of a scenario: servers, daemons, clients' requests, and the ledger."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
import pathlib
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import oslo_messaging
import sqlalchemy as sa

from fleet import errors
from fleet.clock import utcnow
from fleet.context import new_context
from fleet_trial import private_servers
from tests.amqp.daemons import Trio, eventually
from tests.chaos import database_clusters, fence, proxy, servers
from tests.chaos.servers import SINGLE, Servers
from tests.chaos.wire import Wire
from tests.invariants.ledger import Ledger, Row, open_engine

HOSTS = ("a1", "a2", "a3", "b1", "b2", "b3")
#: What a caller is told who is not answered.
NO_ANSWER = (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable)
#: Where a build must have ended, in seconds from its acceptance. Clusters are without service for up to half a minute, and
#: the commands that hurt and heal them take as long again on a busy machine: no build may end at its limit because of that.
BUILD_TIMEOUT_S, OF_CLUSTERS_S = 40, 180

_DEFAULT = """\
rpc_response_timeout = 5
long_rpc_timeout = 10
service_down_time = 9
instance_build_timeout = {build_timeout_s}
compute_driver = unruly_driver.UnrulyDriver
volume_hosts = disks
update_resources_interval = 3
claim_timeout = 5
executor_thread_pool_size = 16
agent_threads = 32
conn_pool_ttl = 10
scheduler_booking_timeout = 20
scheduler_available_filters = unruly_filter.UnrulyFilter
scheduler_default_filters = RetryFilter,AvailabilityZoneFilter,CoreFilter,RamFilter,DiskFilter,ComputeFilter,\
ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,SpecifiedHostFilter,TightLimitsFilter,UnrulyFilter
"""
_CONDUCTOR = "placing_timeout = 6\nspawn_timeout = 15\nmove_timeout = 40\nhosts_down_retry_time = 20\n"
_MORE = """\
heartbeat_timeout_threshold = 6
[oslo_messaging_notifications]
driver = messagingv2
[failpoints]
enabled = true
file = {points}
"""
#: Off, until a scenario switches it on for an aggregate.
_RECOVERY = """\
[recovery]
fence_command = {python} {fence} {directory}
fence_timeout = 3
fence_attempts = 2
wait_time = 1
largest_share = 0.5
domain_label = room
[maintenance]
hooks = work:{python} {fence} {directory}
# A hook whose conductor dies is run again after this time, and the scenarios wait for it.
hook_timeout = 30
"""
_NOTIFICATIONS = ("notifications.info", "notifications.error")
_LIVE = "SELECT * FROM instances WHERE NOT deleted"
_DAEMONS = {
    "conductor": ("fleet-conductor",),
    "scheduler": ("fleet-scheduler",),
    "agent-a": ("fleet-compute", "--hosts", "a[1-3]"),
    "agent-b": ("fleet-compute", "--hosts", "b[1-3]"),
}


class ChaosWorld:
    """``failpoints``, ``unruly``, the servers and their proxies hurt it; ``heal`` undoes all that."""

    def __init__(self, directory: pathlib.Path, servers: Servers, signed: bool = False) -> None:
        """:param signed: whether messages are signed, each daemon with a key of its own"""
        self.directory = directory
        self.signed = signed
        self.servers = servers
        self.cluster = servers.cluster
        self.database = servers.database
        self.wire = Wire(servers.cluster)
        #: What must never be seen in a log or a fault.
        planted = {what: secrets.token_hex(12) for what in ("database", "user", "token")}
        self.secrets = {"broker": servers.cluster.nodes[0].password, **planted}
        #: What callers were answered that were not told of their builds, and what was sent to who listens.
        self.refusals: list[str] = []
        self._notifications: list[dict[str, Any]] = []
        self._tokens = itertools.count()
        #: Storage pools that have become smaller than what they had promised, as machine@backend#pool.
        self.shrunk: set[str] = set()
        #: What a scenario has measured, by name: shown in its line and its JSON.
        self.measured: dict[str, float] = {}
        self.points = directory / "points.json"
        #: ``instance_build_timeout`` of this world.
        self.build_timeout_s = BUILD_TIMEOUT_S if servers.to_broker is not None else OF_CLUSTERS_S
        self.engine = open_engine(servers.database_url)
        self.writer = sa.create_engine(servers.database_url, poolclass=sa.NullPool)
        self.name = ""
        self.trio: Trio

    @property
    def broker(self) -> private_servers.RabbitMQ:
        """The only node of the broker, in worlds of single servers."""
        (node,) = self.cluster.nodes
        return node

    @property
    def to_broker(self) -> proxy.Proxy:
        """The proxy to the broker, in worlds of single servers."""
        assert self.servers.to_broker is not None
        return self.servers.to_broker

    @property
    def to_database(self) -> proxy.Proxy:
        """The proxy to the database, in worlds of single servers."""
        assert self.servers.to_database is not None
        return self.servers.to_database

    @contextlib.contextmanager
    def running(self) -> Iterator[ChaosWorld]:
        """The daemons, started and ready."""
        self.trio = Trio(
            self.directory,
            self.servers.daemons_transport_url,
            self.servers.daemons_database_url(self.secrets["database"]),
            default=_DEFAULT.format(build_timeout_s=self.build_timeout_s),
            conductor=_CONDUCTOR,
            more=_MORE.format(points=self.points) + self._recovery() + self._keys("client"),
            direct_url=self.servers.direct_transport_url,
        )
        try:
            self.trio.manage("db", "sync")
            for name, (program, *arguments) in _DAEMONS.items():
                self.trio.start(name, program, *self.signing(name), *arguments)
            self.wait_until_up()
            self.trio.operator("create_network", network={"name": "lab", "bridge": "br0", "subnet": "10.0.0.0/16"})
            yield self
        finally:
            self.trio.close()

    def _recovery(self) -> str:
        return _RECOVERY.format(python=sys.executable, fence=fence.__file__, directory=self.directory)

    def fence(self, order: str) -> None:
        """How fences end from now on; see ``fence``."""
        (self.directory / fence.ORDER).write_text(order)

    def fences(self) -> list[list[str]]:
        """The fences that ran so far: what each did, and the host."""
        path = self.directory / fence.JOURNAL
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def signing(self, name: str) -> tuple[str, ...]:
        """Arguments for a daemon with a key of its own; the file that all share has that of their callers."""
        if not self.signed:
            return ()
        path = self.directory / f"{name}.signing.conf"
        keys = self._keys(name if name.startswith("agent") else "services")
        path.write_text(f"[DEFAULT]\nenable_new_services = true\n{keys}" if name.startswith("conductor") else keys)
        return "--config-file", str(path)

    def _keys(self, whose: str) -> str:
        """Return a section of a configuration, and write the file with one daemon's keys; services have all keys."""
        if not self.signed:
            return ""
        keys = {
            "services": f"services service {'s' * 32}",
            "agent-a": f"agent-a compute:a1,a2,a3 {'a' * 32}",
            "agent-b": f"agent-b compute:b1,b2,b3 {'b' * 32}",
            "client": f"client client {'c' * 32}",
        }
        path = self.directory / f"{whose}.keys"
        path.write_text("\n".join(keys.values() if whose == "services" else [keys[whose]]))
        path.chmod(0o600)
        return f"[message_signing]\nkeys_file = {path}\n"

    def wait_until_up(self) -> None:
        """Wait until every host has sent a heartbeat after this call.

        A row shows "up" for a while after its process has died.
        """
        began = utcnow()
        self.until(lambda: not self._silent_since(began), timeout_s=60)
        # HeartbeatAnswer of is not all: orders must come through, too.
        self.until(lambda: set(self.views()) == set(HOSTS), timeout_s=60)

    def _silent_since(self, moment: datetime.datetime) -> set[tuple[str, str]]:
        """Hosts and daemons, as (binary, name), without a heartbeat since then."""
        here = socket.gethostname()
        expected = {("fleet-conductor", here), ("fleet-scheduler", here), *(("fleet-compute", host) for host in HOSTS)}
        heard = self._rows('SELECT "binary", host FROM services WHERE last_seen_up > :moment', moment=moment)
        return expected - {(row["binary"], row["host"]) for row in heard}

    def has_heard(self, host: str, moment: datetime.datetime) -> bool:
        """Whether a service of ``host`` has sent a heartbeat since then."""
        return bool(self._rows("SELECT host FROM services WHERE host = :host AND last_seen_up > :moment",
                               host=host, moment=moment))  # fmt: skip

    def heal(self) -> None:
        """Undo every fault, and start what is not running. Nothing that runs is restarted."""
        self.disarm()
        self.unruly()
        self.servers.heal()
        for name in list(self.trio.names()):
            if name not in _DAEMONS:
                self.trio.forget(name)
            elif not self.trio.is_running(name):
                self.trio.restart(name)
        for name in _DAEMONS:
            self.trio.signal(name, signal.SIGCONT)

    # What the world is told to do

    def failpoints(self, **points: dict[str, Any]) -> None:
        """``failpoints(agent__spawn__before={"action": "exit", "times": 1})``, in force at once."""
        self.arm({name.replace("__", "."): point for name, point in points.items()})

    def arm(self, points: dict[str, dict[str, Any]]) -> None:
        self.disarm()
        beside = self.points.with_suffix(".new")
        beside.write_text(json.dumps(points))
        beside.replace(self.points)

    def disarm(self) -> None:
        self.points.unlink(missing_ok=True)
        for mark in self.points.parent.glob(f"{self.points.name}.*"):
            mark.unlink()

    def fired(self, name: str) -> int:
        """How often the failpoint has done its armed action."""
        return len(list(self.points.parent.glob(f"{self.points.name}.{name}.*")))

    def unruly(self, *orders: dict[str, Any]) -> None:
        """What the drivers are to do wrong: see ``unruly_driver``."""
        self.trio.instances_path.mkdir(parents=True, exist_ok=True)
        path = self.trio.instances_path / "unruly.json"
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(orders))
        beside.replace(path)

    def start(self, name: str, program: str, *arguments: str, **options: Any) -> None:
        """One more daemon, gone when the scenario heals."""
        self.trio.start(name, program, *arguments, **options)

    def skewed(self, name: str, seconds: int) -> None:
        """Start the daemon anew, with its wall clock off."""
        program, *arguments = _DAEMONS[name]
        self.trio.stop(name)
        command = [sys.executable, "-m", "tests.chaos.skewed", str(seconds), program]
        self.trio.start(name, "", *self.signing(name), *arguments, command=command)

    def straight(self, name: str) -> None:
        """Start the daemon anew, as it was."""
        program, *arguments = _DAEMONS[name]
        self.trio.stop(name)
        self.trio.start(name, program, *self.signing(name), *arguments)

    def sql(self, statement: str, **values: Any) -> None:
        """Past the proxy."""
        with self.transaction() as connection:
            connection.execute(sa.text(statement), values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Open as long as the caller likes; past the proxy."""
        with self.writer.begin() as connection:
            yield connection

    # Builds

    def boot(self, count: int = 1, **request: Any) -> list[str]:
        """Request ``count`` instances and return the uuids of the answer; none if the answer was lost.

        Accepted instances are in the ledger either way.
        """
        request = {"flavor": {"vcpus": 1, "memory_mb": 64, "root_gb": 1}, "networks": "auto", **request}
        metadata = {"admin_pass": self.secrets["user"]}
        context = new_context(project_id="chaos")
        try:
            accepted = self.trio.tasks.create(
                context,
                {"name": self.name, "count": count, "metadata": metadata, **request},
                f"{self.secrets['token']}-{next(self._tokens)}",
            )
        except (*NO_ANSWER, errors.DatabaseError) as refusal:
            self.refusals.append(repr(refusal) + str(refusal) + str(vars(refusal)))
            return []
        return [each["uuid"] for each in accepted["instances"]]

    def boot_until_told(self, count: int = 1, timeout_s: float = 60, **request: Any) -> list[str]:
        """As a client does that repeats what was not answered."""
        return eventually(lambda: self.boot(count, **request), timeout_s=timeout_s)

    def notifications(self) -> list[dict[str, Any]]:
        """All that were sent so far; none stays on the broker."""
        self._notifications += self.wire.taken(*_NOTIFICATIONS)
        return self._notifications

    def terminate(self, uuids: Sequence[str]) -> None:
        with contextlib.suppress(*NO_ANSWER):
            self.trio.terminate(uuids)

    def ledger(self) -> Ledger:
        return dataclasses.replace(Ledger.read(self.engine), shrunk=frozenset(self.shrunk))

    def builds(self) -> list[Row]:
        """Live instances of this scenario."""
        return self._rows(f"{_LIVE} AND name LIKE :name ORDER BY created_at, launch_index", name=f"{self.name}%")

    def count(self, vm_state: str) -> int:
        return len(
            self._rows(f"{_LIVE} AND name LIKE :name AND vm_state = :state", name=f"{self.name}%", state=vm_state)
        )

    def unsettled(self) -> list[Row]:
        """Whatever is on its way to an end."""
        return self._rows(f"{_LIVE} AND (vm_state = 'building' OR task_state IS NOT NULL)")

    def _rows(self, query: str, **values: Any) -> list[Row]:
        """Read only some columns: this runs many times a second."""
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(sa.text(query), values).mappings()]

    def settle(self, timeout_s: float | None = None) -> bool:
        """Whether everything has come to an end in time. :param timeout_s: None: the time of a build, and a little more"""
        end = time.monotonic() + (self.build_timeout_s + 25 if timeout_s is None else timeout_s)
        while time.monotonic() < end:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                if not self.unsettled():
                    return True
            time.sleep(0.2)
        return False

    def until(self, holds: Callable[[], Any], timeout_s: float = 120) -> Any:
        """Wait for what the scenario counts on. :raises AssertionError: it does not come"""
        return eventually(holds, timeout_s=timeout_s, retry_on=sa.exc.SQLAlchemyError)

    def pass_looks(self, number: int) -> None:
        """Wait until conductors have looked for hosts that are down so many times."""
        for _look in range(number):
            before = self._looked_at()
            self.until(lambda before=before: self._looked_at() != before, timeout_s=30)

    def _looked_at(self) -> object:
        return self._rows("SELECT looked_at FROM recovery_domains WHERE name = ''")[0]["looked_at"]

    @staticmethod
    def seconds_since(moment: str) -> float:
        """:param moment: ISO 8601 text in UTC"""
        now = utcnow().replace(tzinfo=datetime.UTC)
        return (now - datetime.datetime.fromisoformat(moment)).total_seconds()

    def views(self) -> dict[str, dict[str, Any]]:
        """Of the agents that answer."""
        found = {}
        for host in HOSTS:
            with contextlib.suppress(*NO_ANSWER):
                found[host] = self.trio.describe_host(host)
        return found


@contextlib.contextmanager
def opened(directory: pathlib.Path, kind: str = SINGLE, signed: bool = False) -> Iterator[ChaosWorld]:
    """Private servers of a kind, and the daemons on them."""
    directory.mkdir(parents=True, exist_ok=True)
    kinds = {**servers.KINDS, **database_clusters.KINDS}
    with kinds[kind]() as found, ChaosWorld(directory, found, signed).running() as world:
        yield world
