# SPDX-License-Identifier: Apache-2.0
"""The trio as operators run it: one process per daemon, a configuration file, logs in files."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet import errors
from fleet.context import new_context
from fleet.rpc import transport
from fleet.rpc.clients import ComputeAPI, ComputeTaskAPI, ConductorAPI, OperatorAPI, SchedulerAPI
from fleet.rpc.rabbit.conf import LEAN
from tests import evidence, leftovers
from tests.amqp.launched import Launched, launcher
from tests.amqp.launcher import OLD, PROGRAMS

READY_S = 180
STOP_S = 40
#: Where the user's own filters lie.
PLUGINS = pathlib.Path(__file__).parent / "plugins"

_CONFIG = """\
[DEFAULT]
transport_url = {transport_url}
rabbit_driver = {rabbit_driver}
rpc_response_timeout = 10
long_rpc_timeout = 20
report_interval = 1
service_down_time = 6
debug = {debug}
scheduler_available_filters = scheduler.filters.all_filters
scheduler_available_filters = specified_host.SpecifiedHostFilter
scheduler_available_filters = tight_limits.TightLimitsFilter
scheduler_default_filters = RetryFilter,AvailabilityZoneFilter,RamFilter,DiskFilter,ComputeFilter,\
ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,SpecifiedHostFilter,TightLimitsFilter
instance_build_timeout = 90
compute_driver = fake
update_resources_interval = 5
scheduler_tolerance_interval = 1
instances_path = {instances_path}
{default}
[database]
connection = {database_url}
[conductor]
workers = 2
sweep_interval = 2
placing_timeout = 6
retry_interval = 1
{conductor}[fake]
persist = true
vcpus = 16
memory_mb = 32768
local_gb = 500
{fake}
[oslo_messaging_rabbit]
rabbit_quorum_queue = false
amqp_durable_queues = true
kombu_reconnect_delay = 0.5
{more}"""


class Trio:
    """``start``, ``kill`` and ``stop`` daemons by name; call them through the real broker."""

    def __init__(
        self,
        directory: pathlib.Path,
        transport_url: str,
        database_url: str,
        *,
        default: str = "",
        fake: str = "",
        conductor: str = "",
        more: str = "",
        debug: bool = False,
        direct_url: str = "",
    ) -> None:
        """``default``, ``fake`` and ``conductor`` end their sections, ``more`` the file.

        ``direct_url``: how the tests themselves reach the broker where the daemons go through a proxy.
        """
        self.directory = directory
        self.database_url = database_url
        self.instances_path = directory / "instances"
        self.config_file = directory / "fleet.conf"
        config = _CONFIG.format(
            rabbit_driver=os.environ.get("FLEET_RABBIT_DRIVER", LEAN),
            transport_url=transport_url,
            database_url=database_url,
            instances_path=self.instances_path,
            default=default,
            fake=fake,
            conductor=conductor,
            more=more,
            debug=debug,
        )
        self.config_file.touch(mode=0o600)
        self.config_file.write_text(config)
        client_file = directory / "client.conf"
        client_file.write_text(config.replace(transport_url, direct_url) if direct_url else config)
        self._commands: dict[str, list[str]] = {}
        self._processes: dict[str, subprocess.Popen | Launched] = {}
        # oslo.messaging declares some options on no other; an earlier trio's values are the same but for its URLs.
        cfg.CONF.reset()
        files = ["--config-file", str(client_file)]
        # The logging of the tests is pytest's.
        conf = fleet_conf.load_config(files, prog="tests", conf=cfg.CONF, setup_logging=False)
        self._transport = transport.get_transport(conf)
        self.tasks = ComputeTaskAPI(self._transport, conf)
        self.scheduler = SchedulerAPI(self._transport, conf)
        self._host_transport = transport.get_host_transport(conf, self._transport)
        self.compute = ComputeAPI(self._host_transport, conf)
        self._operator = OperatorAPI(self._transport, conf)
        self._conductor = ConductorAPI(self._transport, conf)

    # Processes

    def manage(self, *arguments: str) -> str:
        """Run fleet-manage to its end. :raises subprocess.CalledProcessError:"""
        done = launcher().run(["fleet-manage", "--config-file", str(self.config_file), *arguments], environment())
        done.check_returncode()
        return done.stdout

    def cli(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the fleet command as a user would, with these variables in its environment."""
        own = {**environment(), "FLEET_CONFIG_FILE": str(self.config_file), **variables}
        return launcher().run(["fleet", *arguments], own)

    def start(self, name: str, program: str, *arguments: str, command: Sequence[str] = ()) -> None:
        """``command`` is run instead of ``program``, with the same arguments."""
        self._commands[name] = [
            *(command or [program]),
            "--config-file",
            str(self.config_file),
            *arguments,
        ]
        self.restart(name)

    def restart(self, name: str) -> None:
        program = self._commands[name][0]
        if program in PROGRAMS or program == OLD:
            log, of_its_release = self.log_file(name), launcher(OLD) if program == OLD else launcher()
            self._processes[name] = of_its_release.start(self._commands[name], environment(), log, log)
            return
        with self.log_file(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self._commands[name],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def names(self) -> list[str]:
        """All that were ever started and not forgotten."""
        return list(self._commands)

    def is_running(self, name: str) -> bool:
        return self._processes[name].poll() is None

    def pid(self, name: str) -> int:
        """Of the daemon's first process, which leads the group of all its workers."""
        return self._processes[name].pid

    def keeps_process(self, pid: int) -> bool:
        """Whether this is one of the daemons: a test may restart those of the whole session."""
        return any(each.pid == pid for each in self._processes.values())

    def keeps_thread(self, thread: threading.Thread) -> bool:
        """Return True if this thread may belong to a connection of the session's clients."""
        return thread.name in ("Rabbit-heartbeat", "rpc-outgoing", "rpc-again") or thread.name.endswith("(poll)")

    def signal(self, name: str, number: signal.Signals) -> None:
        """To the daemon and its workers."""
        os.killpg(self.pid(name), number)

    def reload(self, name: str) -> None:
        """SIGHUP to the daemon's first process alone, as systemd sends it.

        That process passes it on: a worker that was sent one, too, would read the files a second time, at any later
        moment.
        """
        os.kill(self.pid(name), signal.SIGHUP)

    def forget(self, name: str) -> None:
        """Kill it for good."""
        if self.is_running(name):
            self.kill(name)
        del self._commands[name], self._processes[name]

    def kill(self, name: str) -> None:
        """kill -9, workers and all."""
        process = self._processes[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str) -> int:
        """SIGTERM; returns the exit status. :raises subprocess.TimeoutExpired: it did not end in time"""
        process = self._processes[name]
        process.terminate()
        return process.wait(STOP_S)

    def close(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._host_transport.cleanup()
        self._transport.cleanup()

    def log_file(self, name: str) -> pathlib.Path:
        return self.directory / f"{name}.log"

    def log_files(self) -> list[pathlib.Path]:
        """Of all daemons that were started and not forgotten."""
        return [self.log_file(name) for name in self.names()]

    def log(self, name: str) -> str:
        return self.log_file(name).read_text(errors="replace")

    def configure(self, text: str) -> None:
        """Replace the configuration file at once: a daemon that reads it meanwhile sees the old one or the new one."""
        draft = self.config_file.with_suffix(".new")
        draft.touch(mode=0o600)  # as before: the doctor looks at it
        draft.write_text(text)
        draft.replace(self.config_file)

    def unruly(self, *orders: dict[str, Any]) -> None:
        """Replace what the drivers are to do wrong: see ``unruly_driver``. Without orders they do all as always."""
        self.instances_path.mkdir(parents=True, exist_ok=True)
        path = self.instances_path / "unruly.json"
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(orders))
        draft.replace(path)

    # Calls

    def operator(self, method: str, **arguments: Any) -> Any:
        """A call that is repeated while the conductor is away."""
        # In a tuple: an answer may be None, or anything else that is false.
        (answer,) = eventually(
            lambda: (self._operator.call(new_context(project_id="tests"), method, **arguments),),
            retry_on=oslo_messaging.MessagingException,
        )
        return answer

    def operator_at_once(self, method: str, **arguments: Any) -> Any:
        """A call that is made once. :raises oslo_messaging.MessagingTimeout:"""
        return self._operator.call(new_context(project_id="tests"), method, **arguments)

    def compute_beat(self) -> dict[str, Any]:
        """A heartbeat as agents send it, of a host that is none. :raises oslo_messaging.MessagingTimeout:"""
        return self._conductor.report_state(new_context(), "fleet-compute", ["nobody"], "an-incarnation")

    def describe_host(self, host: str) -> dict[str, Any]:
        """The agent's own view."""
        return self.compute.describe_host(new_context(), host)

    def boot(self, **request: Any) -> list[str]:
        """Accept a request; returns the uuids."""
        request.setdefault("flavor", {"vcpus": 1, "memory_mb": 512, "root_gb": 1})
        accepted = self.tasks.create(new_context(project_id="tests"), request)
        return [each["uuid"] for each in accepted["instances"]]

    def terminate(self, uuids: Sequence[str]) -> None:
        """A call that is repeated while there is no answer: what is deleted already stays so."""
        eventually(
            lambda: self.tasks.terminate_instances(new_context(project_id="tests"), list(uuids)) or True,
            retry_on=oslo_messaging.MessagingException,
        )

    def show(self, uuid: str) -> dict[str, Any]:
        return self.operator("show_instance", name=uuid)

    def state(self, uuid: str) -> str:
        return self.show(uuid)["instance"]["vm_state"]

    def wait_for(self, uuids: Sequence[str], *states: str, timeout_s: float = 240) -> dict[str, str]:
        """Until each is in one of ``states``; returns them by uuid."""

        def ended() -> dict[str, str] | None:
            found = {uuid: self.state(uuid) for uuid in uuids}
            return found if all(state in states for state in found.values()) else None

        return eventually(ended, timeout_s=timeout_s)

    def wait_for_hosts(self, count: int) -> None:
        """Until so many hosts are up."""
        eventually(
            lambda: sum(host["state"] == "up" for host in self.operator("list_hosts")) >= count, timeout_s=READY_S
        )

    def wait_for_service(self, binary: str) -> None:
        eventually(
            lambda: any(each["binary"] == binary and each["state"] == "up" for each in self.operator("list_services")),
            timeout_s=READY_S,
        )


def eventually(
    ask: Callable[[], Any], timeout_s: float = 180, retry_on: type[Exception] | tuple[type[Exception], ...] = ()
) -> Any:
    """The first true answer. :raises AssertionError: none came in time"""
    deadline = time.monotonic() + timeout_s
    while True:
        answer: Any = None
        try:
            answer = ask()
            if answer or answer == []:
                return answer
        except retry_on as failure:
            answer = failure
        assert time.monotonic() < deadline, f"not within {timeout_s} s; last answer: {answer!r}"
        time.sleep(0.1)


def delete_service(trio: Trio, host: str, binary: str) -> None:
    """Delete the record of a daemon that was stopped: it is up until its farewell is in the ledger."""
    eventually(lambda: (trio.operator("delete_service", host=host, binary=binary),), retry_on=errors.Conflict)


@contextlib.contextmanager
def running(trio: Trio) -> Iterator[Trio]:
    """End the daemons and clients afterwards. Those that a test starts anew meanwhile are not left behind by it."""
    leftovers.KEEPERS.append(trio)
    try:
        with evidence.watch(trio.log_files):
            yield trio
    finally:
        leftovers.KEEPERS.remove(trio)
        trio.close()


def environment() -> dict[str, str]:
    """With the operator's own filters on Python's path."""
    path = os.pathsep.join(filter(None, [str(PLUGINS), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def script(name: str) -> str:
    """The console script beside this interpreter."""
    return str(pathlib.Path(sys.executable).parent / name)
