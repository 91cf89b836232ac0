# SPDX-License-Identifier: Apache-2.0
"""A network for guests: a bridge in a network namespace of its own, which nothing else of the machine reaches.

Called by :mod:`fleet_trial.private_servers.libvirt_server` and :mod:`fleet_trial.trio_config`.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence

from fleet_trial.private_servers.process import ServerMissing, find

BRIDGE = "br0"
_MAKE = 'ip link set lo up && ip link add "$1" type bridge && ip link set "$1" up && echo ready && exec sleep infinity'


class GuestNetwork:
    """The namespace of a process, which lives as long as the network."""

    def __init__(self, process: subprocess.Popen[str], bridge: str) -> None:
        self._process = process
        self.bridge = bridge

    @property
    def pid(self) -> int:
        return self._process.pid

    def inside(self, *command: str) -> list[str]:
        """The command that runs another one in the namespace."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]

    def run(self, *command: str) -> str:
        """Return the output of a command in the namespace. :raises subprocess.CalledProcessError:"""
        return subprocess.run(self.inside(*command), capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def guest_network(bridge: str = BRIDGE) -> Iterator[GuestNetwork]:
    """:raises ServerMissing: this machine has no bridges or no namespaces, or this user may not make them"""
    find("ip", ["/usr/sbin"], package="iproute2")
    find("ebtables", ["/usr/sbin"], package="iptables")
    command: Sequence[str] = ["unshare", "--net", "sh", "-c", _MAKE, "sh", bridge]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != "ready\n":
            raise ServerMissing(f"a network for guests cannot be made: {process.stderr.read().strip()[-500:]}")
        yield GuestNetwork(process, bridge)
    finally:
        process.kill()
        process.communicate()
