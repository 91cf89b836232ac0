# SPDX-License-Identifier: Apache-2.0
"""All services at once, for trials: ``python -m fleet_trial.trio demo|up`` (``make demo``, ``make up``).

The ``Makefile`` runs it. Without a broker all services run in this process, with a SQLite file and a ``local://`` socket.
With ``--broker`` each is a daemon, as in production, with a private broker and database that end with this process.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures

from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet import errors, service
from fleet.checks import option_check
from fleet.client import argument_types, connection, pages
from fleet.client.calls import Calls
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.schema import migration
from fleet.objects import host_report
from fleet.rpc import transport
from fleet.telemetry.health import HealthServer
from fleet.telemetry.watchdog import Watchdog
from fleet_trial import demo, private_servers, trio_config

_READY_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 45
#: Exit status of a program that Ctrl-C has ended, as of a shell.
_INTERRUPTED = 130
#: Most hosts that are up so soon that their progress is not printed.
_FEW = 50
#: Drivers of ``make up``.
FAKE, LIBVIRT = "fake", "libvirt"


class TrioFailed(Exception):
    """The services did not start, or one of them ended."""


def load(path: pathlib.Path, setup_logging: bool = True) -> cfg.ConfigOpts:
    """Load the configuration of all services."""
    return fleet_conf.load_config(
        ["--config-file", str(path)], "fleet-trio", register=[_register_all], setup_logging=setup_logging
    )


@contextlib.contextmanager
def embedded(conf: cfg.ConfigOpts) -> Iterator[None]:
    """Run the services in this process."""
    bus = transport.get_transport(conf)
    started: list[service.Runnable] = []
    try:
        if conf.health.port:
            for each in _metrics_page(conf):
                each.start()
                started.append(each)
        for entry_point in _services():
            for server in entry_point.load()(conf, bus):
                server.start()
                started.append(server)
        yield
    finally:
        for server in reversed(started):
            server.stop()
        # In parallel: each waits for messages that it still handles.
        with futures.ThreadPoolExecutor(max(len(started), 1)) as waiters:
            list(waiters.map(lambda server: server.wait(), started))
        bus.cleanup()


def _metrics_page(conf: cfg.ConfigOpts) -> Sequence[service.Runnable]:
    """Return the page of all services of this process.

    Its watchdog watches nothing, because no supervisor would start a stopped process again.
    """
    options = conf.health
    watchdog = Watchdog({}, options.round_trip_interval, options.round_trip_limit, 0)
    name = {"service": "all", "pid": os.getpid()}
    return [watchdog, HealthServer(watchdog, str(options.bind_host), options.port, name)]


@contextlib.contextmanager
def daemons(config: pathlib.Path) -> Iterator[list[subprocess.Popen]]:
    """Run the services as processes, as an operator does."""
    running: list[subprocess.Popen] = []
    try:
        for entry_point in _services():
            command = [sys.executable, "-m", entry_point.module, "--config-file", str(config)]
            # A session of their own: Ctrl-C reaches this process only, which stops the daemons in order.
            running.append(subprocess.Popen(command, start_new_session=True))
        yield running
    finally:
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _module(daemon: subprocess.Popen) -> str:
    """Return the module that a process of :func:`daemons` runs."""
    assert isinstance(daemon.args, list)
    return str(daemon.args[2])


def wait_until_ready(
    conductor: Calls,
    hosts: int,
    running: Sequence[subprocess.Popen] = (),
    timeout_s: float = _READY_TIMEOUT_S,
    on_progress: Callable[[int], object] = lambda up: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Wait until all hosts are up, ``hosts`` or more; return their number.

    :param timeout_s: for one more host to come up
    :param on_progress: called with the number of hosts that are up, when it has changed
    :param is_stopped: returns True if the user waits no longer
    :raises TrioFailed: a daemon has ended, or no further host came up
    :raises KeyboardInterrupt: the user waits no longer

    After a restart the ledger still shows the agents of the former run: up, but stopping.
    """
    deadline, before = time.monotonic() + timeout_s, 0
    while time.monotonic() < deadline:
        if is_stopped():
            raise KeyboardInterrupt
        ended = [process for process in running if process.poll() is not None]
        if ended:
            raise TrioFailed(f"{_module(ended[0])} ended with status {ended[0].returncode}")
        # A call before the conductor has its queue is lost, so a lost call must not be waited for.
        with contextlib.suppress(connection.CommandFailed), conductor.plain_failures(), conductor.impatient(2):
            nodes, agents = pages.hosts(conductor.operator), pages.services(conductor.operator)
            stopping = {
                each["host"] for each in agents if each["disabled_reason"] == f"{host_report.AUTO}{services.STOPPING}"
            }
            up = sum(node["state"] == "up" and node["host"] not in stopping for node in nodes)
            if up >= hosts:
                return up
            if up != before:
                deadline, before = time.monotonic() + timeout_s, up
                on_progress(up)
        time.sleep(0.1)
    raise TrioFailed(f"{before} of {hosts} hosts are up, and no further one came up within {timeout_s:.0f} s")


def run_demo() -> int:
    """Boot a mixed batch on a few simulated hosts and print the results."""
    with tempfile.TemporaryDirectory(prefix="fleet-demo-") as directory:
        conf = load(trio_config.write(pathlib.Path(directory), demo.HOSTS))
        _sync(conf)
        with embedded(conf), contextlib.closing(connection.Connection(conf)) as conductor:
            wait_until_ready(conductor, demo.HOSTS)
            with conductor.plain_failures():
                return 0 if demo.run(conductor) else 1


def run_up(directory: pathlib.Path, hosts: int | None, broker: str, database: str, driver: str = FAKE) -> int:
    """Keep a trio running until Ctrl-C.

    :param hosts: None: as many as configured
    :param driver: LIBVIRT: this machine is the only host, and a private libvirtd runs its guests
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with contextlib.ExitStack() as held:
        held.enter_context(trio_config.occupied(directory))
        print(f"Starting (broker: {broker}, database: {database}) ...", flush=True)
        network = held.enter_context(private_servers.guest_network()) if driver == LIBVIRT else None
        # The directory may be in a home that only its owner may enter.
        private = functools.partial(private_servers.libvirt, qemu_user="root", network=network)
        hypervisor = held.enter_context(private()) if network else None
        transport_url = held.enter_context(private_servers.BROKERS[broker]()) if broker != "local" else ""
        database_url = held.enter_context(private_servers.DATABASES[database]()) if database != "sqlite" else ""
        config = trio_config.write(directory, hosts, transport_url, database_url, hypervisor.uri if hypervisor else "")
        conf = load(config, setup_logging=broker == "local")
        _sync(conf)
        running: list[subprocess.Popen] = []
        if broker == "local":
            warn_of_options(config)
            held.enter_context(embedded(conf))
        else:
            running = held.enter_context(daemons(config))
        with contextlib.closing(connection.Connection(conf)) as conductor:
            expected = _expected(conf)
            there = wait_until_ready(
                conductor, expected, running, on_progress=_progress(expected), is_stopped=stop.is_set
            )
        programs = pathlib.Path(sys.executable).parent
        page = f"http://{conf.api.bind_host}:{conf.api.port}/"
        boot = _BOOT_IMAGE.format(bridge=network.bridge, enter=" ".join(network.inside())) if network else _BOOT
        welcome = _WELCOME.format(
            hosts=there, page=page, config=config, log=conf.log_file, programs=programs, boot=boot
        )
        print(welcome, flush=True)
        if database != "sqlite":
            print("Its database is private: at the next start it is empty.", flush=True)
        while not stop.wait(1):
            for process in running:
                if process.poll() is not None:
                    raise TrioFailed(f"{_module(process)} ended with status {process.returncode}")
        print("Stopping ...", flush=True)
    return 0


def _progress(expected: int) -> Callable[[int], object]:
    """Return a function that prints the number of hosts that are up, unless they are few."""

    def tell(up: int) -> None:
        if expected > _FEW:
            print(f"{up} of {expected} hosts are up", flush=True)

    return tell


def warn_of_options(config: pathlib.Path) -> None:
    """Print what is wrong in the configuration file. Daemons log it at their start."""
    for finding in option_check.check([str(config)]):
        if finding.level:
            print(f"Warning: {finding.found}. {finding.fix}", file=sys.stderr, flush=True)


_WELCOME = """\
A fleet of {hosts} hosts is running; its log is {log}.
A page to look at: {page}
In another terminal:

    export PATH={programs}:$PATH FLEET_CONFIG_FILE={config}
    fleet host list
    {boot}
    fleet server list

Ctrl-C stops it."""
_BOOT = "fleet boot web --flavor vcpus=1,memory_mb=2048,root_gb=10 --count 3 --wait"
_BOOT_IMAGE = """\
fleet image create NAME --location PATH|URL
    fleet network create lab --bridge {bridge} --subnet 192.0.2.0/24 --range 192.0.2.10-192.0.2.99
    fleet boot web --image NAME --flavor vcpus=1,memory_mb=512,root_gb=4 --wait
    {enter} sh    # a shell beside the guests"""


def _expected(conf: cfg.ConfigOpts) -> int:
    """Return the number of configured hosts: names, and ranges such as host[1-5]."""
    ranges = [re.search(r"\[(\d+)-(\d+)\]", each) for each in conf.hosts]
    return sum(int(each.group(2)) - int(each.group(1)) + 1 if each else 1 for each in ranges) or 1


def _services() -> list[importlib.metadata.EntryPoint]:
    """Return the services sorted by name: the conductor first, because the others register with it."""
    return sorted(importlib.metadata.entry_points(group="fleet.services"), key=lambda each: each.name)


def _register_all(conf: cfg.ConfigOpts) -> None:
    """Register every option of this project's services."""
    for entry_point in importlib.metadata.entry_points(group="oslo.config.opts"):
        # Those of the broker are oslo.messaging's, which registers them itself.
        is_own = entry_point.dist is not None and entry_point.dist.name == "fleet"
        if is_own and entry_point.name != "fleet.messaging":
            for group, options in entry_point.load()():
                conf.register_opts(options, group=None if group == "DEFAULT" else group)


def _sync(conf: cfg.ConfigOpts) -> None:
    with Database(conf).disposed() as database:
        migration.sync(database)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fleet_trial.trio", description=__doc__.splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("demo", help=run_demo.__doc__)
    up = modes.add_parser("up", help=run_up.__doc__)
    up.add_argument("--directory", type=pathlib.Path, default=pathlib.Path(".fleet"))
    up.add_argument("--hosts", type=argument_types.positive, help=f"Default: as before, or {trio_config.HOSTS}.")
    up.add_argument("--broker", choices=["local", *private_servers.BROKERS], default="local")
    up.add_argument("--database", choices=["sqlite", *private_servers.DATABASES], default="sqlite")
    up.add_argument("--driver", choices=[FAKE, LIBVIRT], default=FAKE)
    given = parser.parse_args(argv)
    try:
        if given.mode == "demo":
            return run_demo()
        return run_up(given.directory, given.hosts, given.broker, given.database, given.driver)
    except errors.FleetError as refusal:
        print(refusal.message, file=sys.stderr)
    except (
        connection.CommandFailed,
        TrioFailed,
        trio_config.Occupied,
        trio_config.UnusableDirectory,
        private_servers.ServerMissing,
        private_servers.ServerFailed,
    ) as failed:
        print(failed, file=sys.stderr)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 1


if __name__ == "__main__":
    sys.exit(main())
