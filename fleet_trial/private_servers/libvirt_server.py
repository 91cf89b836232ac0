# SPDX-License-Identifier: Apache-2.0
"""A private libvirtd with its own domains, beside the system's.

Called by :mod:`fleet_trial.private_servers`. libvirt has the paths of its files compiled in. So this one runs in a
mount namespace of its own, as root, where its directories are in their place. QEMU runs as the package's user, as it
does in the system's.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator

from fleet_trial.private_servers.guest_network import GuestNetwork
from fleet_trial.private_servers.process import Place, PrivateServer, ServerMissing, find, place

_DIRECTORIES = {
    "etc": "/etc/libvirt",
    "lib": "/var/lib/libvirt",
    "run": "/run/libvirt",
    "log": "/var/log/libvirt",
    "cache": "/var/cache/libvirt",
}
#: libvirt's own network filters, as its package has them.
_FILTERS = "/etc/libvirt/nwfilter"
_LIBVIRTD = """\
unix_sock_dir = "{sockets}"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
auth_unix_ro = "none"
host_uuid = "{host_uuid}"
"""
#: There may be no systemd that gives out cgroups, and no virtlogd that writes the consoles. The devices below are its own.
#: Guests move between servers of one machine: each is a host of its own for libvirt.
_QEMU = """\
cgroup_controllers = [ ]
stdio_handler = "file"
namespaces = [ ]
"""
#: The kernel may give userfaultfd, and thus a post-copy, only to root with its capabilities.
_POST_COPY = """\
user = "root"
group = "root"
clear_emulator_capabilities = 0
"""
#: Its arguments: pairs of a directory of the server and its place, --, a directory for devices, the program. The devices are
#: without /dev/kvm: guests are emulated, on every machine. libvirt would examine QEMU anew at each call where /dev/kvm is
#: there and its user may not use it.
_ENTER = """\
set -e
while [ "$1" != -- ]; do mkdir -p "$2"; mount --bind "$1" "$2"; shift 2; done
shift
mount -t tmpfs -o mode=755 none "$1"
mkdir "$1/pts" "$1/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$1/pts"
ln -s pts/ptmx "$1/ptmx"
mount --bind /dev/shm "$1/shm"
if [ -e /dev/net/tun ]; then mkdir "$1/net"; touch "$1/net/tun"; mount --bind /dev/net/tun "$1/net/tun"; fi
for device in null zero full random urandom tty; do touch "$1/$device"; mount --bind "/dev/$device" "$1/$device"; done
mount --rbind "$1" /dev
shift
exec "$@"
"""


class Libvirt(PrivateServer):
    """``uri`` is the address of its QEMU driver. Domains run on when it is stopped or killed."""

    def __init__(self, here: Place, program: str, network: GuestNetwork | None = None) -> None:
        binds = [path for name, target in _DIRECTORIES.items() for path in (here.path(name), target)]
        daemon = [program, "-f", here.path("etc", "libvirtd.conf"), "-p", here.path("libvirtd.pid")]
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh", *binds]
        command += ["--", here.path("dev"), *daemon]
        if network is not None:
            command = network.inside(*command)
        self._socket = here.path("sockets", "libvirt-sock")
        super().__init__(here, command, {}, lambda: os.path.exists(self._socket))
        self.uri = f"qemu+unix:///system?socket={self._socket}"

    def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket)
        super().start()

    def domains(self) -> list[int]:
        """Return the pids of all QEMU processes that it has started: those in its mount namespaces."""
        found = []
        for process in pathlib.Path("/proc").iterdir():
            # Processes end meanwhile.
            with contextlib.suppress(OSError):
                here = process.name.isdigit() and self.place.directory in (process / "mountinfo").read_text()
                if here and (process / "exe").readlink().name.startswith("qemu-system"):
                    found.append(int(process.name))
        return found

    def kill_domains(self) -> None:
        for pid in self.domains():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def libvirt(qemu_user: str = "", network: GuestNetwork | None = None, post_copy: bool = False) -> Iterator[Libvirt]:
    """Run a private libvirtd that can be killed and restarted. Its domains end with it.

    :param qemu_user: that QEMU runs as; the package's by default
    :param network: into whose bridge guests are plugged
    :param post_copy: for guests that a test trusts: QEMU runs as root, with all that root may
    :raises ServerMissing: it is not installed, or this user may not run it
    """
    program = find("libvirtd", [], package="libvirt-daemon-system")
    find("qemu-system-x86_64", [], package="qemu-system-x86")
    if os.geteuid() != 0:
        raise ServerMissing("a private libvirtd needs root")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        raise ServerMissing("a private libvirtd needs a mount namespace, which this machine does not allow")
    with place("libvirt", user=None) as here:
        os.chmod(here.directory, 0o711)
        for name in (*_DIRECTORIES, "sockets", "dev"):
            os.mkdir(here.path(name))
            os.chmod(here.path(name), 0o755)
        here.write("etc/libvirtd.conf", _LIBVIRTD.format(sockets=here.path("sockets"), host_uuid=uuid.uuid4()))
        user = f'user = "{qemu_user}"\n' if qemu_user else ""
        here.write("etc/qemu.conf", _QEMU + (_POST_COPY if post_copy else user))
        if os.path.isdir(_FILTERS):
            shutil.copytree(_FILTERS, here.path("etc", "nwfilter"))
        server = Libvirt(here, program, network)
        try:
            with server.running():
                yield server
        finally:
            server.kill_domains()
