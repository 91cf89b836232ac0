# SPDX-License-Identifier: Apache-2.0
"""A cloud of nova 34 on a private broker and database, with fleet-scheduler or nova-scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fleet_trial.private_servers import PostgreSQL, RabbitMQ, postgresql_server, rabbitmq_node
from fleet_trial.private_servers.process import free_ports

HERE = pathlib.Path(__file__).parent
#: The virtual environment with nova, placement and the client; ``make nova`` creates it.
VENV = pathlib.Path(os.environ.get("FLEET_NOVA_VENV", HERE.parents[1] / ".venv-nova"))
HOSTS = ("cmp1", "cmp2", "cmp3")
READY_S = 180
#: In every message of a user's request; it must appear in no log.
PLANTED = "planted-token-5d1f7c"

_API_PASTE = """\
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: versions
/v2.1: versions_v2
/v2.1/+: compute
[composite:compute]
use = call:nova.api.auth:pipeline_factory_v21
keystone = request_id faults limit anybody context application
[filter:anybody]
paste.filter_factory = stand_ins:auth_factory
[filter:request_id]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory
[filter:faults]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:limit]
paste.filter_factory = oslo_middleware:RequestBodySizeLimiter.factory
[filter:context]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory
[app:application]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[app:versions]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
[app:versions_v2]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
"""

_NOVA = """\
[DEFAULT]
host = {host}
my_ip = 127.0.0.1
state_path = {state}
compute_driver = {driver}
transport_url = {broker}
report_interval = 2
service_down_time = 120
update_resources_interval = 5
running_deleted_instance_poll_interval = 5
reserved_host_memory_mb = 512
rpc_response_timeout = 60
long_rpc_timeout = 180
osapi_compute_workers = 1
debug = False
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = {paste}
[api_database]
connection = {api}
[database]
connection = {cell}
[conductor]
workers = 2
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 5
[filter_scheduler]
track_instance_changes = true
[placement]
auth_type = admin_token
token = admin
endpoint = http://127.0.0.1:{placement}
[glance]
endpoint_override = http://127.0.0.1:{services}
auth_type = none
[neutron]
endpoint_override = http://127.0.0.1:{services}
auth_type = none
[cinder]
endpoint_template = http://127.0.0.1:{services}/v3
[service_user]
send_service_user_token = false
[oslo_concurrency]
lock_path = {state}
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
[quota]
instances = -1
cores = -1
ram = -1
server_group_members = -1
[compute]
build_failure_weight_multiplier = 0
[workarounds]
never_download_image_if_on_rbd = true
"""

_PLACEMENT = """\
[placement_database]
connection = {database}
sync_on_startup = true
[api]
auth_strategy = noauth2
"""

_CLOUDS = """\
clouds:
  trial:
    auth_type: none
    auth: {{endpoint: "{services}"}}
    compute_endpoint_override: {api}
    identity_api_version: "3"
    identity_endpoint_override: {services}/v3
    image_endpoint_override: {services}/v2
    network_endpoint_override: {services}
"""

_FLEET = """\
[DEFAULT]
host = fleet-scheduler
report_interval = 2
service_down_time = 120
scheduler_compare_period = 10
debug = true
{more}
[health]
port = {health}
service_offset = 0
[nova]
transport_url = {broker}
api_connection = {api}
cell_connection = {cell}
placement = claim
placement_connection = {placement_database}
[decisions]
file = {decisions}
[placement]
auth_type = admin_token
token = admin
endpoint = http://127.0.0.1:{placement}
"""

#: The filter of the README, behind the default ones.
SPECIFIED_HOST = """\
scheduler_available_filters = scheduler.filters.all_filters
scheduler_available_filters = specified_host.SpecifiedHostFilter
scheduler_default_filters = AvailabilityZoneFilter,RamFilter,DiskFilter,CoreFilter,ComputeFilter,\
ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,SpecifiedHostFilter
"""


class Cloud:
    """Starts and ends single processes by name; talks to the API and to placement."""

    def __init__(self, directory: pathlib.Path, broker: RabbitMQ, postgres: PostgreSQL) -> None:
        self.directory = directory
        self.postgres = postgres
        self.broker_url = broker.vhost("nova")
        self._ports = dict(zip(("api", "placement", "services", "health"), free_ports(4), strict=True))
        self._processes: dict[str, subprocess.Popen] = {}
        self.api_url = f"http://127.0.0.1:{self._ports['api']}/v2.1"
        self.transcript: list[str] = []

    # -- set up -----------------------------------------------------------------------------------------------------

    def url(self, database: str, role: str = "fleet") -> str:
        return self.postgres.url(database).replace("//fleet@", f"//{role}@")

    def prepare(self, driver: str = "trial_drivers.Host") -> None:
        """Create the databases, the schema and the configuration files."""
        # nova loads compute drivers from its own package only.
        for package in VENV.glob("lib/python3.*/site-packages/nova/virt"):
            shutil.copy(HERE / "trial_drivers.py", package)
        for database in ("nova_api", "nova_cell0", "nova", "placement"):
            self.postgres.execute(f"CREATE DATABASE {database}")
        for host in ("controller", *HOSTS):
            self.configure(host, driver)
        (self.directory / "controller/api-paste.ini").write_text(_API_PASTE)
        services = f"http://127.0.0.1:{self._ports['services']}"
        (self.directory / "clouds.yaml").write_text(_CLOUDS.format(api=self.api_url, services=services))
        (self.directory / "placement").mkdir()
        (self.directory / "placement/placement.conf").write_text(_PLACEMENT.format(database=self.url("placement")))
        self.manage("api_db", "sync")
        self.manage("cell_v2", "map_cell0", "--database_connection", self.url("nova_cell0"))
        self.manage("cell_v2", "create_cell", "--name", "cell1")
        self.manage("db", "sync")

    def configure(self, host: str, driver: str) -> None:
        """Write the configuration file of one host."""
        state = self.directory / host
        if not state.exists():
            state.mkdir()
            # nova-compute refuses to start a second time without it.
            (state / "compute_id").write_text(str(uuid.uuid4()))
        config = _NOVA.format(
            host=host,
            state=state,
            driver=driver,
            broker=self.broker_url,
            paste=self.directory / "controller/api-paste.ini",
            api=self.url("nova_api"),
            cell=self.url("nova"),
            placement=self._ports["placement"],
            services=self._ports["services"],
        )
        (state / "nova.conf").write_text(config)

    def manage(self, *words: str) -> str:
        return self.run("nova-manage", "--config-file", str(self.directory / "controller/nova.conf"), *words)

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
        self.spawn("conductor", self.nova_command("nova-conductor", "controller"))
        eventually(lambda: "version" in self._http("GET", f"{self.api_url}/", {}))

    def start_placement(self) -> None:
        """Start placement, which creates its tables."""
        program = [str(VENV / "bin/python"), str(HERE / "stand_ins.py")]
        self.spawn("placement", [*program, "wsgi", "placement.wsgi.api", str(self._ports["placement"])])
        eventually(lambda: "versions" in self.placement("GET", "/"))

    def start_computes(self, hosts: Sequence[str] = HOSTS) -> None:
        for host in hosts:
            self.spawn(host, self.nova_command("nova-compute", host))
        eventually(lambda: set(hosts) <= {each["name"] for each in self.providers()}, READY_S)
        self.manage("cell_v2", "discover_hosts")

    def nova_command(self, program: str, host: str) -> list[str]:
        return [str(VENV / "bin" / program), "--config-file", str(self.directory / host / "nova.conf")]

    def start_fleet_scheduler(
        self, name: str = "fleet-scheduler", more: str = SPECIFIED_HOST, options: Sequence[str] = ()
    ) -> None:
        path = self.directory / f"{name}.conf"
        path.write_text(
            _FLEET.format(
                broker=self.broker_url,
                api=self.url("nova_api", "reader"),
                cell=self.url("{path}", "reader").replace("{path}", "{{path}}").replace("{{", "{").replace("}}", "}"),
                placement=self._ports["placement"],
                placement_database=self.url("placement", "reader"),
                health=self._ports["health"],
                decisions=self.directory / "decisions.db",
                more=more,
            )
        )
        path.chmod(0o600)
        plugins = HERE.parents[0] / "amqp/plugins"
        self.config_file = path
        self.spawn(
            name,
            [str(pathlib.Path(sys.executable).parent / "fleet-scheduler"), "--config-file", str(path), *options],
            {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{plugins}"},
        )
        eventually(lambda: self._is_ready(), READY_S)

    def _is_ready(self) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports['health']}/healthz", timeout=5) as page:
            return bool(json.load(page)["ready"])

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
        command = [str(pathlib.Path(sys.executable).parent / program), "--config-file", str(self.config_file), *words]
        plugins = {**os.environ, "PYTHONPATH": str(HERE.parent / "amqp/plugins")}
        done = subprocess.run([*command, "-f", "json"], capture_output=True, text=True, check=False, env=plugins)
        assert done.returncode <= status, done.stderr[-3000:]
        self.transcript.append(f"$ {program} {' '.join(words)}\n{done.stdout}")
        return json.loads(done.stdout)

    def keeps_thread(self, thread: threading.Thread) -> bool:
        """Return False: the cloud has processes only."""
        return False

    def keeps_process(self, pid: int) -> bool:
        return pid in {each.pid for each in self._processes.values()}

    # -- the API ----------------------------------------------------------------------------------------------------

    def openstack(self, *words: str, check: bool = True) -> Any:
        """Run the real client; return its JSON, or its text where it prints none."""
        command = ["--os-cloud", "trial"]
        text = self.run("openstack", *command, "--os-compute-api-version", "2.96", *words, check=check)
        self.transcript.append(f"$ openstack {' '.join(words)}\n{text}")
        try:
            return json.loads(text)
        except ValueError:
            return text

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Call nova's API directly: the client takes a second a command."""
        headers = {"X-Auth-Token": "t", "OpenStack-API-Version": "compute 2.96"}
        return self._http(method, f"{self.api_url}{path}", headers, body)

    def placement(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.36"}
        return self._http(method, f"http://127.0.0.1:{self._ports['placement']}{path}", headers, body)

    def _http(self, method: str, url: str, headers: dict[str, str], body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else {}

    def providers(self) -> list[dict[str, Any]]:
        return self.placement("GET", "/resource_providers")["resource_providers"]

    def is_up(self, binary: str) -> bool:
        """Whether nova's list of services has one of this kind that is up."""
        found = self.api("GET", f"/os-services?binary={binary}")["services"]
        return any(each["state"] == "up" for each in found)

    def server(self, number: str) -> dict[str, Any]:
        return self.api("GET", f"/servers/{number}")["server"]

    def servers(self) -> list[dict[str, Any]]:
        return self.api("GET", "/servers/detail?all_tenants=1")["servers"]

    def boot(self, name: str, flavor: str, hints: dict[str, Any] | None = None, **more: Any) -> str:
        from tests.nova.stand_ins import IMAGE_ID

        server = {"name": name, "flavorRef": flavor, "imageRef": IMAGE_ID, "networks": "none", **more}
        body = {"server": server, "os:scheduler_hints": hints or {}}
        return self.api("POST", "/servers", body)["server"]["id"]

    def settled(self, number: str, limit_s: float = 180) -> dict[str, Any]:
        """Wait until a server is not being worked on any more; return it."""

        def look() -> dict[str, Any] | None:
            found = self.server(number)
            busy = found["OS-EXT-STS:task_state"] or found["status"] in ("BUILD", "REBUILD", "RESIZE", "MIGRATING")
            return None if busy else found

        return eventually(look, limit_s)

    def allocations(self) -> dict[str, dict[str, dict[str, int]]]:
        """Consumer → name of the provider → resources."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for provider in self.providers():
            held = self.placement("GET", f"/resource_providers/{provider['uuid']}/allocations")["allocations"]
            for consumer, each in held.items():
                found.setdefault(consumer, {})[provider["name"]] = each["resources"]
        return found

    def placed(self) -> dict[str, set[str]]:
        """Server → the hosts that its state says it holds, for servers on a host."""
        return {each["id"]: {each["OS-EXT-SRV-ATTR:host"]} for each in self.servers() if each["OS-EXT-SRV-ATTR:host"]}

    def force_down(self, host: str, is_down: bool) -> None:
        """Tell nova that a host is dead, as a monitor of hosts does; its heartbeats would take minutes to run out."""
        (service,) = self.api("GET", f"/os-services?host={host}&binary=nova-compute")["services"]
        self.api("PUT", f"/os-services/{service['id']}", {"forced_down": is_down})

    def restart(self, host: str) -> None:
        """Start a compute service that was killed; return when it says so."""
        begun = len(self.log(host))
        self.spawn(host, self.nova_command("nova-compute", host))
        eventually(lambda: "Starting compute node" in self.log(host)[begun:])

    def fault(self, number: str) -> str:
        return self.server(number).get("fault", {}).get("message", "")

    def delete_all(self) -> None:
        for each in self.servers():
            self.api("DELETE", f"/servers/{each['id']}")
        eventually(lambda: not self.servers(), 90)


def eventually(look: Callable[[], Any], limit_s: float = 180) -> Any:
    """The first answer that is true."""
    deadline = time.monotonic() + limit_s
    while True:
        problem: Exception | None = None
        try:
            found = look()
        except (OSError, KeyError, ValueError) as failure:
            found, problem = None, failure
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {limit_s} s: {problem!r}"
        time.sleep(0.2)


@contextlib.contextmanager
def cloud(directory: pathlib.Path, driver: str = "trial_drivers.Host") -> Iterator[Cloud]:
    """A cloud with its three hosts, and no scheduler yet."""
    with rabbitmq_node() as broker, postgresql_server() as postgres:
        made = Cloud(directory, broker, postgres)
        try:
            made.prepare(driver)
            made.start_services()
            made.start_computes()
            yield made
        finally:
            made.stop()
