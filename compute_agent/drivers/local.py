# SPDX-License-Identifier: Apache-2.0
"""This machine as a host: its real inventory, and one supervised process for each instance.

``compute_driver = local`` names it. An instance is a directory under ``instances_path`` with ``guest.json`` (the
order), ``supervisor.json`` (the processes) and ``guest.log``. The supervisor has a session of its own and outlives
the agent. To destroy an instance, its directory is renamed first: a supervisor that is still starting then finds it
gone and ends.
"""

from __future__ import annotations

import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import psutil
from oslo_config import cfg
from oslo_log import log as logging

from compute_agent.drivers import guest_record, machine
from compute_agent.drivers.base import ComputeDriver, GuestInfo, SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.guest import __main__ as supervisor
from compute_agent.guest import state_file
from compute_agent.guest.process import Identity
from fleet import errors, states
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, Flavor, Image, Instance, host_report

LOG = logging.getLogger(__name__)

_DESTROYED, _MAKING = "destroyed-", "making-"
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_START_POLL_S = 0.01
_LOG = "guest.log"
#: The supervisor runs as a top-level package, without site-packages and without compute_agent's imports.
_GUEST_ROOT = str(pathlib.Path(supervisor.__file__).parent.parent)


#: Environment variables that every guest gets besides those of its instance.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEMD = pathlib.Path("/run/systemd/system")


def guest_environment() -> dict[str, str]:
    return {"PATH": _PATH, "LANG": "C.UTF-8"}


def scope_command(instance_uuid: str) -> list[str]:
    """Return a command prefix that starts a cgroup, if systemd runs and this user may use it; else empty.

    systemd-run replaces itself by the program, so the process stays the same.
    """
    program = shutil.which("systemd-run")
    if program is None or not _SYSTEMD.is_dir() or os.geteuid() != 0:
        return []
    unit = f"--unit=fleet-guest-{instance_uuid}-{os.urandom(4).hex()}"
    return [program, "--scope", "--quiet", "--collect", "--slice=fleet-guests", unit, "--"]


class LocalDriver(ComputeDriver):
    """The lock guards only the handles of supervisors that this process has started and must reap."""

    one_host_only = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._options = conf.local
        self._node = ""
        self._root = pathlib.Path(conf.instances_path) / "local"
        self._lock = threading.Lock()
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def init_host(self, host: str) -> None:
        self._node = host
        if not self._options.guest_command:
            raise errors.ConfigError(option="[local] guest_command", reason="must not be empty")
        _require_user(self._options.guest_user)
        self._root = self._root / host
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as denied:
            raise errors.ConfigError(option="instances_path", reason=f"cannot be written: {denied}") from None
        for half_made in self._root.glob(f"{_MAKING}*"):
            shutil.rmtree(half_made)
        for half_destroyed in self._root.glob(f"{_DESTROYED}*"):
            self._end(half_destroyed)

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        return [self._node]

    def get_available_resource(self, node: str) -> JSONObject | None:
        resources = machine.inventory(str(self._root))
        free_gb = resources.pop("free_disk_gb")
        promised = sum(record.disk_gb for record in self._records())
        return {
            **resources,
            "vcpus_used": 0,
            "disk_available_least": free_gb - promised,
            "hypervisor_type": "local",
            "stats": {host_report.SHELF: "local"},
            "hypervisor_version": machine.kernel_version(),
            "hypervisor_hostname": node,
            "supported_instances": [[os.uname().machine, "local", "exe"]],
        }

    def spawn(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        directory = self._directory(instance.uuid)
        self._begin(directory, self._order(instance))
        with time_limit.undone(lambda: self.destroy(context, instance.uuid)):
            time_limit.require_wanted()
            self._start(directory, instance.uuid)

    def _begin(self, directory: pathlib.Path, order: JSONObject) -> None:
        """Make the directory of a guest, which appears with the order in it: an agent that dies then finds the guest by it.

        :raises SpawnFailed: it is there already, or cannot be made
        """
        making = self._root / f"{_MAKING}{os.urandom(8).hex()}"
        try:
            making.mkdir()
            state_file.write(making / supervisor.ORDER_FILE, order)
            time_limit.require_wanted()
            # An empty directory is replaced, as an earlier release has left it; one with an order is not.
            making.rename(directory)
        except OSError as failure:
            if directory.exists():
                raise SpawnFailed(f"Instance {directory.name} exists on this machine already") from None
            raise SpawnFailed(f"The guest cannot be made: {failure}") from None
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def shelve(self, context: RequestContext, instance: Instance) -> None:
        """A process has no disk: it starts anew where it is unshelved."""

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        doomed = self._root / f"{_DESTROYED}{instance_uuid}"
        # What an earlier call has left: its processes may run on.
        was_left = doomed.exists()
        if was_left:
            self._end(doomed)
        try:
            self._directory(instance_uuid).rename(doomed)
        except FileNotFoundError:
            if not was_left:
                LOG.warning("Nothing to destroy: instance %s is not on this machine", instance_uuid)
        else:
            self._end(doomed)
        self._reap_supervisor(instance_uuid)

    def _reap_supervisor(self, instance_uuid: str) -> None:
        with self._lock:
            handle = self._started.pop(instance_uuid, None)
        if handle is not None:
            _reap(handle, self._options.destroy_timeout)

    def migrate_disk_and_power_off(
        self, context: RequestContext, instance: Instance, dest: str, flavor: Flavor
    ) -> None:
        """The guest's directory stays as it is; nothing is copied to another machine."""
        self._switch_off(instance.uuid, self._known(instance.uuid))

    def finish_migration(
        self,
        context: RequestContext,
        instance: Instance,
        image_meta: Image,
        volumes: Sequence[Attachment] | None = None,
    ) -> None:
        before = state_file.read(self._directory(instance.uuid) / supervisor.ORDER_FILE)
        if before is None:
            self.spawn(context, instance, image_meta)
            return
        with time_limit.undone(lambda: self._switch_off(instance.uuid, before)):
            self._start_again(instance)

    def finish_revert_migration(
        self, context: RequestContext, instance: Instance, volumes: Sequence[Attachment] | None = None
    ) -> None:
        self._known(instance.uuid)
        self._start_again(instance)

    def power_off(self, context: RequestContext, instance: Instance) -> None:
        self._switch_off(instance.uuid, self._known(instance.uuid), stopped=True)

    def power_on(self, context: RequestContext, instance: Instance) -> None:
        self._known(instance.uuid)
        self._start_again(instance)

    def reboot(self, context: RequestContext, instance: Instance, hard: bool = False) -> None:
        self._known(instance.uuid)
        self._halt(instance.uuid, hard)
        self._start_again(instance)

    def suspend(self, context: RequestContext, instance: Instance) -> None:
        """Stop the guest's processes; the kernel keeps their memory. The supervisor goes on."""
        self._known(instance.uuid)
        child = self._child(self._directory(instance.uuid))
        if child is None or not child.signal_group(signal.SIGSTOP):
            raise SpawnFailed("The guest does not run")

    def resume(self, context: RequestContext, instance: Instance) -> None:
        self._known(instance.uuid)
        child = self._child(self._directory(instance.uuid))
        if child is None or not child.signal_group(signal.SIGCONT):
            self._start_again(instance)

    def _known(self, instance_uuid: str) -> JSONObject:
        """Return the order of a guest. :raises errors.NotFound: there is none"""
        order = state_file.read(self._directory(instance_uuid) / supervisor.ORDER_FILE)
        if order is None:
            raise errors.NotFound(kind="Guest", name=instance_uuid)
        return order

    def _switch_off(self, instance_uuid: str, order: JSONObject, stopped: bool = False) -> None:
        """Record the intention first: a half-done switch-off is found, and repeated or undone."""
        directory = self._directory(instance_uuid)
        off = {"power_state": states.SHUTDOWN, "stopped": stopped}
        state_file.write(directory / supervisor.ORDER_FILE, {**order, **off})
        self._halt(instance_uuid)

    def _halt(self, instance_uuid: str, hard: bool = False) -> None:
        directory = self._directory(instance_uuid)
        self._stop(directory, hard)
        (directory / supervisor.STATE_FILE).unlink(missing_ok=True)
        self._reap_supervisor(instance_uuid)

    def _start_again(self, instance: Instance) -> None:
        """Start in the existing directory, with the order for ``instance``."""
        time_limit.require_wanted()
        order = self._order(instance)
        directory = self._directory(instance.uuid)
        # An order of an earlier release says less. A new name is no reason to start a guest again.
        same = {**order, **self._known(instance.uuid), "name": order["name"]} == order
        if same and self.get_info(instance.uuid).state == states.RUNNING:
            return
        self._halt(instance.uuid)
        time_limit.require_wanted()
        state_file.write(directory / supervisor.ORDER_FILE, order)
        self._start(directory, instance.uuid)

    def get_info(self, instance_uuid: str) -> GuestInfo:
        record = guest_record.read(self._directory(instance_uuid) / supervisor.ORDER_FILE)
        if record is None:
            raise errors.NotFound(kind="Guest", name=instance_uuid)
        child = self._child(self._directory(instance_uuid))
        memory_kb = record.memory_mb * 1024
        if record.power_state == states.SHUTDOWN:
            return GuestInfo(state=states.SHUTDOWN, max_mem_kb=memory_kb, num_cpu=record.vcpus)
        if child is None or not child.alive():
            return GuestInfo(state=states.CRASHED, max_mem_kb=memory_kb, num_cpu=record.vcpus)
        try:
            process = psutil.Process(child.pid)
            times, resident = process.cpu_times(), process.memory_info().rss
            halted = process.status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return GuestInfo(state=states.CRASHED, max_mem_kb=memory_kb, num_cpu=record.vcpus)
        return GuestInfo(
            state=states.SUSPENDED if halted else states.RUNNING,
            max_mem_kb=memory_kb,
            mem_kb=resident // 1024,
            num_cpu=record.vcpus,
            cpu_time_ns=int((times.user + times.system) * 1e9),
        )

    def get_console_output(self, context: RequestContext, instance_uuid: str, most_bytes: int) -> bytes:
        return guest_record.log_end(instance_uuid, self._directory(instance_uuid) / _LOG, most_bytes)

    def get_per_instance_usage(self) -> dict[str, JSONObject]:
        return {record.uuid: record.usage() for record in self._records()}

    def _records(self) -> list[GuestRecord]:
        """Return the records of all guests, also of those that a call of :meth:`destroy` has left."""
        directories = [path for path in self._root.iterdir() if _UUID.match(path.name.removeprefix(_DESTROYED))]
        records = [guest_record.read(directory / supervisor.ORDER_FILE) for directory in directories]
        return [record for record in records if record is not None]

    def _directory(self, instance_uuid: str) -> pathlib.Path:
        return self._root / instance_uuid

    def _order(self, instance: Instance) -> JSONObject:
        memory_mb = instance.flavor.memory_mb
        record = GuestRecord.of(instance)
        return {
            **record.to_dict(),
            "command": list(self._options.guest_command),
            "address_space_bytes": memory_mb * 2**20 if self._options.limit_memory else 0,
            "destroy_timeout_s": self._options.destroy_timeout,
            "user": self._options.guest_user,
            "environment": {
                "FLEET_INSTANCE_UUID": instance.uuid,
                "FLEET_VCPUS": str(instance.flavor.vcpus),
                "FLEET_MEMORY_MB": str(memory_mb),
            },
        }

    def _start(self, directory: pathlib.Path, instance_uuid: str) -> None:
        with open(directory / _LOG, "ab") as log:
            handle = subprocess.Popen(
                [*scope_command(instance_uuid), sys.executable, "-S", "-P", "-m", "guest", str(directory)],
                cwd="/",
                # Not the agent's environment: NOTIFY_SOCKET, credentials and proxies are not for guests.
                env={**guest_environment(), "PYTHONPATH": _GUEST_ROOT},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with self._lock:
            self._started[instance_uuid] = handle
        end = time.monotonic() + self._options.start_timeout
        ended = False
        while (state := state_file.read(directory / supervisor.STATE_FILE)) is None:
            if ended:
                raise SpawnFailed(f"The guest's supervisor ended with status {handle.returncode}")
            if time.monotonic() > end:
                raise SpawnFailed(f"The guest was not up after {self._options.start_timeout} s")
            time.sleep(_START_POLL_S)
            # Read once more after its end: it may have written the reason last.
            ended = handle.poll() is not None
        if "error" in state:
            raise SpawnFailed(state["error"])

    def _end(self, doomed: pathlib.Path) -> None:
        """End the processes of a renamed directory, then remove it. May be repeated after a crash."""
        self._stop(doomed)
        shutil.rmtree(doomed)

    @staticmethod
    def _child(directory: pathlib.Path) -> Identity | None:
        """Return the guest's process as the supervisor has written it."""
        return Identity.from_dict((state_file.read(directory / supervisor.STATE_FILE) or {}).get("child"))

    def _stop(self, directory: pathlib.Path, hard: bool = False) -> None:
        """End the processes of a guest. :param hard: kill them; else the guest has ``destroy_timeout`` to end"""
        head = Identity.from_dict((state_file.read(directory / supervisor.STATE_FILE) or {}).get("supervisor"))
        if head is not None and not hard and head.send(signal.SIGTERM):
            hard = not head.wait(2 * self._options.destroy_timeout + 1)
        if head is not None and hard and head.send(signal.SIGKILL):
            head.wait(self._options.destroy_timeout)
        # Read now: until its end the supervisor may have started another child.
        child = self._child(directory)
        if child is not None:
            child.kill_group()
            child.wait(self._options.destroy_timeout)


def _reap(handle: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Reap a child of this process. Its pid is not reused before."""
    try:
        handle.wait(timeout_s)
    except subprocess.TimeoutExpired:
        handle.kill()
        handle.wait()


def _require_user(name: str) -> None:
    """:raises errors.ConfigError: there is no such user, or this process may not change users"""
    if not name:
        return
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        raise errors.ConfigError(option="[local] guest_user", reason=f"is {name}, and there is no such user") from None
    if os.geteuid() not in (0, uid):
        own = pwd.getpwuid(os.geteuid()).pw_name
        raise errors.ConfigError(
            option="[local] guest_user", reason=f"is {name}, and only root can run guests as another user than {own}"
        )
