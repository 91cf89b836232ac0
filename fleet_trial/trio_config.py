# SPDX-License-Identifier: Apache-2.0
"""The directory of ``make up``: its configuration, which the user may edit, and a lock.

Called by :mod:`fleet_trial.trio`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from fleet_trial.private_servers.guest_network import BRIDGE

HOSTS = 5
#: Where clients look for the compute API.
API_PORT = 8774
#: First port of the daemons' metrics, and how far those of the daemons are from it.
HEALTH_PORT = 9100
_OF_DAEMONS = tuple(20 * number for number in range(5))
#: Characters of a path that would be the name of an option, an encoded character, the options of a URL, or the end of a
#: pool's path.
_SPECIAL = "$%?,"
#: Random ports that are tried.
_TRIES = 20
_NEW = """\
# Made by 'make up', and yours from then on: edits stay. Only broker and database are set anew where BROKER or DB says so,
# hosts where HOSTS does, and the ports of [api] and [health] if they are in use.
[DEFAULT]
transport_url =
log_file = {directory}/fleet.log
compute_driver = fake
# The volumes lie on this machine, and every host is on it.
volume_hosts = *
hosts = host[1-{hosts}]
instances_path =
enabled_backends = disks
volume_state_path =
report_interval = 2
service_down_time = 10

[database]
connection =

[disks]
# Volumes are sparse files.
volume_driver = directory
directory_pools =

[fake]
# Guests are still there after the next start, unless the database is a private server, which then is empty.
persist = true
vcpus = 16
memory_mb = 32768
local_gb = 400
"""


class UnusableDirectory(Exception):
    """No fleet can run in the directory. The message has the reason."""


class Occupied(Exception):
    """A fleet already runs in the directory. The message has its process."""


def write(
    directory: pathlib.Path,
    hosts: int | None,
    transport_url: str = "",
    database_url: str = "",
    libvirt_uri: str = "",
) -> pathlib.Path:
    """Write the configuration of the whole trio in ``directory``; by default embedded.

    :param hosts: None: as many as before, or HOSTS
    :param libvirt_uri: of the hypervisor of the only host; empty: hosts are simulated
    """
    directory = directory.resolve()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / "fleet.conf"
    path.touch(mode=0o600)
    text = path.read_text() or _NEW.format(directory=directory, hosts=hosts or HOSTS)
    # A private database is empty: agents must not bring the state of another ledger.
    instances = directory / ("instances-of-private-database" if database_url else "instances")
    if database_url:
        shutil.rmtree(instances, ignore_errors=True)
    options = {
        ("DEFAULT", "instances_path"): str(instances),
        ("DEFAULT", "volume_state_path"): str(instances),
        ("DEFAULT", "transport_url"): transport_url or f"local://{directory}/fleet.sock",
        ("database", "connection"): database_url or f"sqlite:///{directory}/fleet.db",
    }
    if "enabled_backends" not in text:
        # The file is of an earlier release.
        options["DEFAULT", "enabled_backends"], options["disks", "volume_driver"] = "disks", "directory"
    if "[disks]" in text or "enabled_backends" not in text:
        options["disks", "directory_pools"] = _pools(text, directory, instances)
    if not re.search(r"^volume_hosts\b", text, re.MULTILINE):
        options["DEFAULT", "volume_hosts"] = "*"
    options["api", "port"] = str(_free_port(_known_port(text, "api") or API_PORT))
    options["health", "port"] = str(_free_port(_known_port(text, "health") or HEALTH_PORT, _OF_DAEMONS))
    if hosts:
        options["DEFAULT", "hosts"] = f"host[1-{hosts}]"
    if libvirt_uri:
        options["DEFAULT", "compute_driver"], options["DEFAULT", "hosts"] = "libvirt", "host1"
        # There is no other host that a resize could go to.
        options["DEFAULT", "allow_resize_to_same_host"] = "true"
        options["libvirt", "connection_uri"], options["libvirt", "virt_type"] = libvirt_uri, "qemu"
        # That of its namespace: the agent sees the bridges of this machine.
        options["libvirt", "bridges"] = BRIDGE
    path.write_text(with_options(text, options))
    return path


def _pools(text: str, directory: pathlib.Path, instances: pathlib.Path) -> str:
    """Return the pools of the file. That of the trial moves with the database; others are the user's."""
    known = re.search(r"^directory_pools[ \t]*=[ \t]*(.*)$", text, re.MULTILINE)
    listed = [each.strip() for each in known[1].split(",") if each.strip()] if known else []
    own, former = f"files:{instances}/disks", f"files:{directory}/instances"
    return ",".join(own if each.startswith(former) else each for each in listed) or own


def _known_port(text: str, section: str) -> int | None:
    found = re.search(rf"^\[{section}\]\s*(?:[^\[]*\n)?port\s*=\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else None


def _free_port(wanted: int, offsets: Sequence[int] = (0,)) -> int:
    """Return the wanted port, or any other if it is in use. :param offsets: of ports after it that must be free as well"""
    for port in (wanted, *(0 for _ in range(_TRIES))):
        with contextlib.suppress(OSError, OverflowError), contextlib.ExitStack() as held:
            first: int = held.enter_context(socket.create_server(("127.0.0.1", port))).getsockname()[1]
            for offset in offsets[1:]:
                held.enter_context(socket.create_server(("127.0.0.1", first + offset)))
            return first
    raise Occupied("No port is free on 127.0.0.1 for the HTTP API or the daemons' metrics.")


def with_options(text: str, options: Mapping[tuple[str, str], str]) -> str:
    """Return ``text`` of a configuration file with these options, by section and name; other lines are unchanged."""
    lines: list[str] = []
    left = dict(options)
    section = ""
    for line in text.splitlines():
        header = re.fullmatch(r"\s*\[(.+)\]\s*", line)
        if header:
            lines += _missing(left, section)
            section = header.group(1)
        name = re.match(r"([\w-]+)\s*[=:]", line)
        key = (section, name.group(1).replace("-", "_")) if name else None
        if key is not None and key in options:
            if key in left:
                lines.append(f"{key[1]} = {left.pop(key)}")
            continue
        lines.append(line)
    lines += _missing(left, section)
    for other in dict.fromkeys(each for each, _ in left):
        lines += [f"[{other}]", *_missing(left, other)]
    return "\n".join(lines) + "\n"


def _missing(left: dict[tuple[str, str], str], section: str) -> list[str]:
    """Return lines for the options of ``section`` that are not set yet, and remove them from ``left``."""
    return [f"{key[1]} = {left.pop(key)}" for key in list(left) if key[0] == section]


@contextlib.contextmanager
def occupied(directory: pathlib.Path) -> Iterator[None]:
    """Lock ``directory`` for one fleet.

    :raises Occupied: another fleet runs there; nothing is changed
    :raises UnusableDirectory: it cannot be made or written, or its path cannot be in the configuration
    """
    with _lock_file(directory) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            raise Occupied(
                f"A fleet is running in {directory.resolve()} already (process {pid}); nothing was changed. Use it with "
                f"FLEET_CONFIG_FILE={directory.resolve()}/fleet.conf, or end it with Ctrl-C in its terminal."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _lock_file(directory: pathlib.Path) -> TextIO:
    path = str(directory.resolve())
    special = sorted(set(path) & set(_SPECIAL))
    if special:
        raise UnusableDirectory(
            f"No fleet can run in {path}: {' and '.join(special)} in a path would have a meaning in the configuration. "
            f"Use a directory whose path has none of {' '.join(_SPECIAL)}"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(directory / "lock", "a+")
    except OSError as unusable:
        raise UnusableDirectory(f"No fleet can run in {path}: {unusable.strerror}") from None
