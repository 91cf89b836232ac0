# SPDX-License-Identifier: Apache-2.0
"""A cloud of nova 34 on a private broker and database, with fleet-scheduler or nova-scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleet.db.nova import tables
from fleet_trial.private_servers import RabbitMQ, rabbitmq_node
from fleet_trial.private_servers.process import free_ports
from tests.nova import databases, files, layout
from tests.nova.calls import Calls, eventually
from tests.nova.databases import KEEPER, OWNER, READER, Databases
from tests.nova.layout import ONE_CELL, Layout, conductor_of

__all__ = ["HERE", "HOSTS", "PLANTED", "VENV", "Cloud", "cloud", "eventually"]

HERE = pathlib.Path(__file__).parent
#: The virtual environment with nova, placement and the client; ``make nova`` creates it.
VENV = pathlib.Path(os.environ.get("FLEET_NOVA_VENV", HERE.parents[1] / ".venv-nova"))
HOSTS = tuple(ONE_CELL.hosts)
READY_S = 180
#: In every message of a user's request; it must appear in no log.
PLANTED = "planted-token-5d1f7c"
#: The source, and plugins of tests.
_PLUGINS = os.pathsep.join((str(HERE.parents[1]), str(HERE.parent / "amqp/plugins")))
_CONTROLLER, _PLACEMENT = "controller", "placement"


class Cloud(Calls):
    """Starts and ends single processes by name; talks to the API and to placement."""

    def __init__(self, directory: pathlib.Path, broker: RabbitMQ, servers: Databases, cells: Layout = ONE_CELL) -> None:
        self.directory = directory
        self.databases = servers
        self.layout = cells
        self._ports = dict(zip(("api", "placement", "services", "health"), free_ports(4), strict=True))
        super().__init__(self._ports["api"], self._ports["placement"])
        self._brokers = {name: broker.vhost(name) for name in {layout.TOP, *(cell.vhost for cell in cells.cells)}}
        self.broker_url = self._brokers[layout.TOP]
        self._processes: dict[str, subprocess.Popen] = {}

    # -- set up -----------------------------------------------------------------------------------------------------

    def url(self, database: str, role: str = OWNER) -> str:
        return self.databases.url(database, role)

    def prepare(self, driver: str = "trial_drivers.Host") -> None:
        """Create the databases, the schema, the role that reads them, and the configuration files."""
        # nova loads compute drivers from its own package only.
        for package in VENV.glob("lib/python3.*/site-packages/nova/virt"):
            shutil.copy(HERE / "trial_drivers.py", package)
        cells = self.layout.cells
        for database in (layout.API, layout.CELL0, _PLACEMENT, *(cell.database for cell in cells)):
            self.databases.create(database)
        conductors = [conductor_of(cell) for cell in cells] if self.layout.is_split else []
        for host in (_CONTROLLER, *conductors, *self.layout.hosts):
            self.configure(host, driver)
        (self.directory / _CONTROLLER / "api-paste.ini").write_text(files.API_PASTE)
        (self.directory / _CONTROLLER / "scheduler.conf").write_text(files.NOVA_SCHEDULER)
        services = f"http://127.0.0.1:{self._ports['services']}"
        (self.directory / "clouds.yaml").write_text(files.CLOUDS.format(api=self.api_url, services=services))
        (self.directory / _PLACEMENT).mkdir()
        (self.directory / "placement/placement.conf").write_text(files.PLACEMENT.format(database=self.url(_PLACEMENT)))
        self.manage("api_db", "sync")
        self.manage("cell_v2", "map_cell0", "--database_connection", self.url(layout.CELL0))
        for cell in cells:
            where = ("--database_connection", self.url(cell.database), "--transport-url", self._brokers[cell.vhost])
            self.manage("cell_v2", "create_cell", "--name", cell.name, *where)
        self.manage("db", "sync")
        for conductor in conductors:
            self.manage("db", "sync", "--local_cell", host=conductor)

    def let_read(self) -> None:
        """Create the roles with the documented grants. The tables must be there."""
        of: Mapping[str, Sequence[sa.TableClause]] = {
            layout.API: tables.API_TABLES,
            _PLACEMENT: tables.PLACEMENT_TABLES,
        }
        cells = {cell.database: tables.CELL_TABLES for cell in self.layout.cells}
        self.databases.let_read({**of, **cells}, self._top_database)

    @property
    def _top_database(self) -> str:
        """The database of nova-scheduler's own row."""
        return self.layout.cell_of(_CONTROLLER).database

    def configure(self, host: str, driver: str) -> None:
        """Write the configuration file of one host."""
        state = self.directory / host
        if not state.exists():
            state.mkdir()
            # nova-compute refuses to start a second time without it.
            (state / "compute_id").write_text(str(uuid.uuid4()))
        cell = self.layout.cell_of(host)
        config = files.NOVA.format(
            host=host,
            state=state,
            driver=driver,
            broker=self._brokers[cell.vhost],
            paste=self.directory / _CONTROLLER / "api-paste.ini",
            api=self.url(layout.API),
            cell=self.url(cell.database),
            placement=self._ports["placement"],
            services=self._ports["services"],
        )
        (state / "nova.conf").write_text(config)

    def manage(self, *words: str, host: str = _CONTROLLER) -> str:
        return self.run("nova-manage", "--config-file", str(self.directory / host / "nova.conf"), *words)

    def run(self, program: str, *words: str, check: bool = True) -> str:
        """Run a program of nova's virtual environment to its end; return its output."""
        done = subprocess.run(
            [str(VENV / "bin" / program), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            env=self._environment(),
            timeout=180,
        )
        assert not (check and done.returncode), f"{program} {' '.join(words)}: {done.stderr[-3000:]}"
        return done.stdout if check else done.stdout + done.stderr

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
        return {
            **kept,
            "PYTHONPATH": str(HERE),
            "PYTHONWARNINGS": "ignore",
            "PLANTED_TOKEN": PLANTED,
            "OS_PLACEMENT_CONFIG_DIR": str(self.directory / "placement"),
            "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true",
            "OS_NOVA_CONFIG_DIR": str(self.directory / "controller"),
            "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf",
        }

    # -- processes --------------------------------------------------------------------------------------------------

    def start_services(self) -> None:
        """Start all but a scheduler and the compute services."""
        python, stand_ins = str(VENV / "bin/python"), str(HERE / "stand_ins.py")
        self.spawn("services", [python, stand_ins, "services", str(self._ports["services"])])
        self.start_placement()
        self.spawn("api", [python, stand_ins, "wsgi", "nova.wsgi.osapi_compute", str(self._ports["api"])])
        self.spawn("conductor", self.nova_command("nova-conductor", _CONTROLLER))
        if self.layout.is_split:
            for conductor in map(conductor_of, self.layout.cells):
                self.spawn(conductor, self.nova_command("nova-conductor", conductor))
        eventually(lambda: "version" in self._http("GET", f"{self.api_url}/", {}))

    def start_placement(self) -> None:
        """Start placement, which creates its tables."""
        program = [str(VENV / "bin/python"), str(HERE / "stand_ins.py")]
        self.spawn("placement", [*program, "wsgi", "placement.wsgi.api", str(self._ports["placement"])])
        eventually(lambda: "versions" in self.placement("GET", "/"))

    def start_computes(self) -> None:
        hosts = self.layout.hosts
        for host in hosts:
            self.spawn(host, self.nova_command("nova-compute", host))
        eventually(lambda: set(hosts) <= {each["name"] for each in self.providers()}, READY_S)
        self.manage("cell_v2", "discover_hosts")

    def nova_command(self, program: str, host: str) -> list[str]:
        return [str(VENV / "bin" / program), "--config-file", str(self.directory / host / "nova.conf")]

    def start_nova_scheduler(self) -> None:
        """Start it, and return when nova's list of services shows it as up."""
        own = str(self.directory / _CONTROLLER / "scheduler.conf")
        self.spawn("nova-scheduler", [*self.nova_command("nova-scheduler", _CONTROLLER), "--config-file", own])
        eventually(lambda: self.is_up("nova-scheduler", _CONTROLLER))

    def start_fleet_scheduler(
        self, name: str = "fleet-scheduler", more: str = files.SPECIFIED_HOST, options: Sequence[str] = ()
    ) -> None:
        """Start it, and return when it is ready."""
        path = self.directory / f"{name}.conf"
        path.write_text(
            files.FLEET.format(
                broker=self.broker_url,
                api=self.url(layout.API, READER),
                cell=self.databases.cell_connection,
                placement=self._ports["placement"],
                placement_database=self.url(_PLACEMENT, READER),
                row=self.url(self._top_database, KEEPER),
                health=self._ports["health"],
                decisions=self.directory / "decisions.db",
                more=more,
            )
        )
        path.chmod(0o600)
        self.config_file = path
        self.spawn(
            name,
            [str(pathlib.Path(sys.executable).parent / "fleet-scheduler"), "--config-file", str(path), *options],
            {**os.environ, "PYTHONPATH": _PLUGINS},
        )
        eventually(lambda: self._is_ready(), READY_S)

    def _is_ready(self) -> bool:
        return bool(json.loads(self._page("healthz"))["ready"])

    @property
    def has_fleet(self) -> bool:
        return any(name in self._processes for name in ("fleet-scheduler", "shadow"))

    def read_at(self) -> float:
        """Return when fleet-scheduler read the databases last, in epoch seconds."""
        metric = r"^fleet_scheduler_cache_read_timestamp_seconds (\S+)"
        found = re.search(metric, self._page("metrics"), re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    def _page(self, name: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports['health']}/{name}", timeout=5) as page:
            return page.read().decode()

    def spawn(self, name: str, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                list(command),
                cwd=self.directory,
                env=environment or self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        process.wait(60)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def fleet(self, *words: str, program: str = "fleet", status: int = 0) -> Any:
        """Run a command of this project with the scheduler's configuration file; return its JSON.

        :param status: the highest exit status that is right
        """
        return json.loads(self.fleet_text(*words, "-f", "json", program=program, status=status))

    def fleet_text(self, *words: str, program: str = "fleet", status: int = 0) -> str:
        """Run a command as :meth:`fleet` does; return its output."""
        command = [str(pathlib.Path(sys.executable).parent / program), "--config-file", str(self.config_file), *words]
        environment = {**os.environ, "PYTHONPATH": _PLUGINS}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode <= status, done.stderr[-3000:]
        self.transcript.append(f"$ {program} {' '.join(words)}\n{done.stdout}")
        return done.stdout

    def keeps_thread(self, thread: threading.Thread) -> bool:
        """Return False: the cloud has processes only."""
        return False

    def keeps_process(self, pid: int) -> bool:
        return pid in {each.pid for each in self._processes.values()}

    def restart(self, host: str) -> None:
        """Start a compute service that was killed; return when it says so."""
        begun = len(self.log(host))
        self.spawn(host, self.nova_command("nova-compute", host))
        eventually(lambda: "Starting compute node" in self.log(host)[begun:])


@contextlib.contextmanager
def cloud(
    directory: pathlib.Path,
    servers: contextlib.AbstractContextManager[Databases] | None = None,
    cells: Layout = ONE_CELL,
    driver: str = "trial_drivers.Host",
) -> Iterator[Cloud]:
    """A cloud with its hosts and flavors, on PostgreSQL unless given, and no scheduler yet."""
    with rabbitmq_node() as broker, servers or databases.on_postgresql() as server:
        made = Cloud(directory, broker, server, cells)
        try:
            made.prepare(driver)
            made.start_services()
            made.let_read()
            made.start_computes()
            for name, ram, vcpus in files.FLAVORS:
                made.api(
                    "POST", "/flavors", {"flavor": {"name": name, "id": name, "ram": ram, "vcpus": vcpus, "disk": 1}}
                )
            yield made
        finally:
            made.stop()
