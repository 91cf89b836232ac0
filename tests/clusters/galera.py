# SPDX-License-Identifier: Apache-2.0
"""A private MariaDB Galera cluster: every node has every committed transaction, and takes writes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import time
from collections.abc import Iterator, Sequence

from fleet.db.engine import statements
from fleet_trial.private_servers.process import (
    Place,
    PrivateServer,
    ServerFailed,
    ServerMissing,
    find,
    free_ports,
    place,
)

_PROVIDER = "/usr/lib/galera/libgalera_smm.so"
_WAIT_S = 120.0
#: A transaction is on the network's other side before it is committed: no node needs its disk for that.
_OPTIONS = (
    "--skip-networking",
    "--character-set-server=utf8mb4",
    "--max-connections=300",
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    "--innodb-flush-log-at-trx-commit=0",
    "--wsrep-on=ON",
    f"--wsrep-provider={_PROVIDER}",
    "--wsrep-cluster-name=fleet",
    "--wsrep-sst-method=rsync",
    "--wsrep-slave-threads=4",
)
_STATUS = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{}'"
_ISOLATE = "SET GLOBAL wsrep_provider_options = 'gmcast.isolate={}'"


class GaleraNode(PrivateServer):
    """``socket`` is where it listens; ``url`` is that of a database in it."""

    def __init__(self, here: Place, name: str, ports: Sequence[int]) -> None:
        self.name = name
        self.socket = here.path("socket")
        group, ist, sst = ports
        self.address = f"127.0.0.1:{group}"
        #: Addresses of all nodes.
        self.members: Sequence[str] = ()
        provider = f"gmcast.listen_addr=tcp://{self.address};ist.recv_addr=127.0.0.1:{ist};gcache.size=32M"
        self._settings = [
            find("mariadbd", ["/usr/sbin"], package="mariadb-server"),
            "--no-defaults",
            f"--datadir={here.path('data')}",
            f"--tmpdir={here.directory}",
            f"--socket={self.socket}",
            *_OPTIONS,
            f"--wsrep-node-name={name}",
            f"--wsrep-node-address={self.address}",
            f"--wsrep-sst-receive-address=127.0.0.1:{sst}",
            f"--wsrep-provider-options={provider}",
        ]
        super().__init__(here, self._settings, {}, self.is_synced)

    def url(self, database: str = "fleet") -> str:
        return f"mysql+pymysql://root@localhost/{database}?unix_socket={self.socket}&charset=utf8mb4"

    def execute(self, statement: str, database: str = "mysql") -> None:
        statements.execute(self.url(database), statement)

    def status(self, variable: str) -> str:
        """The value of a status variable of the server, such as ``wsrep_cluster_size``."""
        return str(statements.row(self.url("information_schema"), _STATUS.format(variable))[0])

    def is_synced(self) -> bool:
        """Return True if it takes statements."""
        return statements.answers(self.url("mysql")) and self.status("wsrep_ready") == "ON"

    def start(self, first: bool = False) -> None:
        """Join the others. :param first: make a new cluster of this node's data"""
        others = [] if first else [each for each in self.members if each != self.address]
        self._command = [*self._settings, f"--wsrep-cluster-address=gcomm://{','.join(others)}"]
        super().start()

    def cut_off(self) -> None:
        """Let it neither send to other nodes nor receive from them."""
        self._isolate(1)

    def bring_back(self) -> None:
        self._isolate(0)

    def _isolate(self, on: int) -> None:
        # A node without its cluster refuses most statements, such as SQLAlchemy's first ones.
        client = find("mariadb", [], package="mariadb-client")
        self.place.run([client, "--no-defaults", f"--socket={self.socket}", "-u", "root", "-e", _ISOLATE.format(on)])


class GaleraCluster:
    """``nodes`` are equal."""

    def __init__(self, nodes: Sequence[GaleraNode]) -> None:
        self.nodes = nodes
        for node in nodes:
            node.members = [each.address for each in nodes]

    def start(self) -> None:
        """Make the data of the first node, and start all; the others copy it."""
        first, *others = self.nodes
        install = find("mariadb-install-db", [], package="mariadb-server")
        here = first.place
        data = [f"--datadir={here.path('data')}", f"--tmpdir={here.directory}"]
        here.run([install, "--no-defaults", *data, "--auth-root-authentication-method=normal", "--skip-test-db"])
        first.start(first=True)
        first.execute("CREATE DATABASE fleet")
        # A node that joins with the data of the others need not copy them.
        first.stop()
        for node in others:
            node.place.run(["cp", "-a", here.path("data"), node.place.path("data")])
        first.start(first=True)
        with concurrent.futures.ThreadPoolExecutor(len(others)) as together:
            list(together.map(GaleraNode.start, others))
        self.wait_for_members()

    def wait_for_members(self) -> None:
        """Wait until all running nodes are one cluster."""
        running = [node for node in self.nodes if node.may_answer]
        deadline = time.monotonic() + _WAIT_S
        while not all(node.is_synced() and int(node.status("wsrep_cluster_size")) == len(running) for node in running):
            if time.monotonic() > deadline:
                raise ServerFailed(f"the nodes do not form a cluster:\n{running[0].place.log_end()}")
            time.sleep(0.1)


@contextlib.contextmanager
def galera_cluster(size: int = 3) -> Iterator[GaleraCluster]:
    """Run a cluster with an empty database ``fleet``. :raises ServerMissing: MariaDB, Galera or rsync is not installed"""
    find("rsync", [], package="rsync")
    if not os.path.exists(_PROVIDER):
        raise ServerMissing(f"{_PROVIDER} is not installed (Debian package galera-4)")
    with contextlib.ExitStack() as held:
        places = [held.enter_context(place("galera", user="mysql")) for _number in range(size)]
        ports = free_ports(3 * size)
        nodes = [
            GaleraNode(here, f"db{number + 1}", ports[3 * number : 3 * number + 3])
            for number, here in enumerate(places)
        ]
        for node in nodes:
            held.callback(node.kill)
        cluster = GaleraCluster(nodes)
        cluster.start()
        yield cluster
