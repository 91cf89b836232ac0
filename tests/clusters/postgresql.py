# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL primary with two synchronous standbys, each of which can be promoted and can rejoin.

The settings are those of docs/high-availability.md. A commit waits for any one of the two standbys. So the furthest
standby has every acknowledged commit, if both are looked at, and if neither receives from the old primary any more.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import time
from collections.abc import Callable, Iterator

from fleet.db.engine import statements
from fleet_trial.private_servers.postgresql_server import PostgreSQL
from fleet_trial.private_servers.process import Place, ServerFailed, find, place

_NAMES = ("pg1", "pg2", "pg3")
_PORT = 5432
_WAIT_S = 120.0
_OPTIONS = {
    "listen_addresses": "",
    "max_connections": "300",
    "synchronous_standby_names": f"ANY 1 ({', '.join(_NAMES)})",
    "wal_log_hints": "on",  # for pg_rewind
    "wal_retrieve_retry_interval": "200ms",
    "fsync": "off",  # nothing in it outlives us
}
_RECEIVES = "SELECT count(*) FROM pg_stat_wal_receiver"
_POSITION = "SELECT coalesce(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0', 0)"
_FOLLOWERS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
_FOLLOWER = "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{}'"
_SLOT = (
    "SELECT pg_create_physical_replication_slot('{0}')"
    " WHERE NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = '{0}')"
)
_DROP_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"


class Node(PostgreSQL):
    """A server of the cluster; ``name`` is what the primary calls it."""

    def __init__(self, here: Place, name: str) -> None:
        self.name = name
        self._programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
        options = {**_OPTIONS, "unix_socket_directories": here.directory, "port": _PORT, "cluster_name": name}
        settings = [part for option, value in options.items() for part in ("-c", f"{option}={value}")]
        super().__init__(here, [self.program("postgres"), "-D", here.path("data"), *settings], _PORT)

    def program(self, name: str) -> str:
        return find(name, self._programs, package="postgresql")

    @property
    def address(self) -> str:
        """The address for libpq, with the directory of the socket, which only the server's user may enter."""
        return f"host={self.place.directory} port={self.port} user=fleet"

    def run(self, name: str, *arguments: str) -> None:
        self.place.run([self.program(name), *arguments])

    def value(self, statement: str) -> int:
        return int(statements.row(self.url("postgres"), statement)[0])

    def follow(self, leader: Node | None) -> None:
        """Receive from ``leader``, or from no server. It takes effect at the next start, too."""
        source = f"primary_conninfo = '{leader.address}'\nprimary_slot_name = '{self.name}'\n" if leader else ""
        self.place.write_secret("data/postgresql.auto.conf", source)
        self.place.write_secret("data/standby.signal", "")
        if self.may_answer:
            self.execute("SELECT pg_reload_conf()")


class PostgreSQLCluster:
    """``nodes`` are servers; ``primary`` is the one that was promoted last."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.primary = nodes[0]

    @property
    def standbys(self) -> list[Node]:
        return [node for node in self.nodes if node is not self.primary]

    def fail_over(self) -> Node:
        """Promote the furthest of all running standbys, and let the others follow it. Return it.

        The old primary may be dead, hang, or run on: without a standby it acknowledges no commit.
        """
        candidates = [node for node in self.standbys if node.may_answer]
        for node in candidates:
            node.follow(None)
        _until(lambda: not any(node.value(_RECEIVES) for node in candidates), "a standby still receives")
        chosen = max(candidates, key=lambda node: node.value(_POSITION))
        chosen.execute("SELECT pg_promote()")
        others = [node for node in self.nodes if node is not chosen]
        for node in others:
            chosen.execute(_SLOT.format(node.name))
        for node in others:
            if node in candidates:
                node.follow(chosen)
        self.primary = chosen
        return chosen

    def rejoin(self, node: Node) -> None:
        """Let an old primary, or a standby that was lost, follow the primary; whatever only it has is dropped."""
        node.kill()
        self.primary.execute("CHECKPOINT")  # pg_rewind reads the time line of the last one
        node.place.write_secret("data/postgresql.auto.conf", "")
        try:
            source = f"--source-server={self.primary.address} dbname=postgres"
            node.run("pg_rewind", "--no-sync", f"--target-pgdata={node.place.path('data')}", source)
        except ServerFailed:
            self._copy_to(node)
        node.follow(self.primary)
        node.start()
        node.execute(_DROP_SLOTS)
        self.wait_for_followers()

    def follows(self, node: Node) -> bool:
        """Return True if ``node`` is a standby that receives from the primary."""
        return bool(self.primary.value(_FOLLOWER.format(node.name)))

    def start(self) -> None:
        """Make the data, and start all nodes."""
        first, *others = self.nodes
        options = ["-U", "fleet", "--auth-local", "trust", "--auth-host", "reject", "--no-sync", "-E", "UTF8"]
        first.run("initdb", "-D", first.place.path("data"), *options, "--locale", "C")
        first.start()
        for node in others:
            first.execute(_SLOT.format(node.name))
            self._copy_to(node)
            node.follow(first)
            node.start()
        self.wait_for_followers()
        first.execute("CREATE DATABASE fleet")

    def wait_for_followers(self) -> None:
        """Wait until every running standby receives from the primary."""
        expected = sum(node.may_answer for node in self.standbys)
        _until(lambda: self.primary.value(_FOLLOWERS) >= expected, "a standby does not follow")

    def _copy_to(self, node: Node) -> None:
        data = node.place.path("data")
        if os.path.exists(data):
            shutil.rmtree(data)
        node.run("pg_basebackup", "-D", data, "-d", self.primary.address, "-c", "fast", "--no-sync")


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise ServerFailed(f"{what} after {_WAIT_S:g} s")
        time.sleep(0.05)


@contextlib.contextmanager
def postgresql_cluster() -> Iterator[PostgreSQLCluster]:
    """Run a primary with two synchronous standbys, and an empty database ``fleet``."""
    with contextlib.ExitStack() as held:
        places = [held.enter_context(place("postgresql", user="postgres")) for _name in _NAMES]
        nodes = [Node(here, name) for here, name in zip(places, _NAMES, strict=True)]
        for node in nodes:
            held.callback(node.kill)
        cluster = PostgreSQLCluster(nodes)
        cluster.start()
        yield cluster
