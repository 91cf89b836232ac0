# SPDX-License-Identifier: Apache-2.0
"""Makes an image of a guest that prints what it has: Debian's kernel, busybox, and SYSLINUX on a FAT file system.

Its console shows lines such as ``GUEST name web-1``, ``GUEST memory_kb 105624`` and ``GUEST disk vda 33554432``,
``GUEST has SERIAL SIZE`` for each disk, and ``GUEST up`` when it is done, then ``GUEST new SERIAL SIZE`` for each disk that
it gets, and ``GUEST beat 7`` once a second: it counts from its boot, and writes the number to its first disk, too. It ends
by itself when its power button is pressed, and boots again at Ctrl-Alt-Delete.

A guest with an address prints ``GUEST address 192.0.2.10/24``, and ``GUEST mac`` if the MAC address is that of its seed.
With user data ``ping ADDRESS`` it prints ``GUEST ping answered`` or ``GUEST ping lost`` at each beat. With ``as ADDRESS``
behind, it also lies about its own address: ``GUEST lie answered``. With user data ``spin`` it keeps its processor busy.
"""

from __future__ import annotations

import pathlib
import shutil
import stat
import subprocess

from oslo_utils import units

#: Where on its first disk a guest writes the last of its beats, in MiB: behind all that the image has.
BEATS_MB = 700
_PACKAGE = "linux-image-cloud-amd64"
#: In an order that insmod accepts.
_MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"),
    *("cdrom", "isofs", "button", "evdev"),
    *("failover", "net_failover", "virtio_net"),
)
_PROGRAMS = ("mformat", "mcopy", "syslinux", "cpio", "dpkg-deb", "apt-get", "busybox")
_INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in {modules}; do insmod /modules/$module.ko; done
for disk in /sys/block/vd*; do
    name=${{disk##*/}}
    echo "GUEST disk $name $(( $(cat $disk/size) * 512 ))"
    if mount -t iso9660 -o ro /dev/$name /seed 2>/dev/null; then
        echo "GUEST name $(sed -n 's/.*"local-hostname": "\\(.*\\)".*/\\1/p' /seed/meta-data)"
        echo "GUEST key $(sed -n 's/.*": "\\(ssh-.*\\)".*/\\1/p' /seed/meta-data)"
        echo "GUEST user_data $(sed -n 1p /seed/user-data)"
        orders=$(sed -n 1p /seed/user-data)
        address=$(sed -n 's/.*"address": "\\(.*\\)".*/\\1/p' /seed/network-config 2>/dev/null)
        mac=$(sed -n 's/.*"ethernet_mac_address": "\\(.*\\)".*/\\1/p' /seed/openstack/latest/network_data.json 2>/dev/null)
    fi
done
echo "GUEST memory_kb $(sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo)"
if [ -n "$address" ]; then
    ip link set lo up; ip link set eth0 up; ip addr add $address dev eth0
    echo "GUEST address $address"
    if [ "$mac" = "$(cat /sys/class/net/eth0/address)" ]; then echo "GUEST mac $mac"; fi
fi
ask() {{
    if ping -c 1 -W 2 $3 $2 >/dev/null 2>&1; then echo "GUEST $1 answered"; else echo "GUEST $1 lost"; fi
}}
echo "GUEST cpus $(grep -c ^processor /proc/cpuinfo)"
mkdir -p /etc/acpi/PWRF
printf '#!/bin/sh\\necho "GUEST power button"\\npoweroff -f\\n' > /etc/acpi/PWRF/00000080
chmod +x /etc/acpi/PWRF/00000080
acpid -d &
look() {{
    for disk in /sys/block/vd*; do
        name=${{disk##*/}}
        case " $seen " in
        *" $name "*) ;;
        *) echo "GUEST $1 $(cat $disk/serial) $(( $(cat $disk/size) * 512 ))"; seen="$seen $name" ;;
        esac
    done
}}
look has
echo "GUEST up"
if [ "$orders" = spin ]; then while true; do :; done & fi
beat=0
while true; do
    look new
    set -- $orders
    if [ "$1" = ping ]; then ask ping $2; fi
    if [ "$3" = as ]; then ip addr add $4/24 dev eth0 2>/dev/null; ask lie $2 "-I $4"; fi
    echo "GUEST beat $beat"
    echo "beat $beat" | dd of=/dev/vda bs=1M seek={beats_at} conv=notrunc,fsync 2>/dev/null
    beat=$((beat + 1))
    sleep 1
done
"""
_SYSLINUX = """\
DEFAULT tiny
LABEL tiny
KERNEL vmlinuz
INITRD initrd
APPEND console=ttyS0 quiet panic=-1 mitigations=off
"""


class CannotMake(Exception):
    """A program or a package that the image needs is missing."""


def make(directory: pathlib.Path) -> pathlib.Path:
    """Return the path of a raw image. :raises CannotMake:"""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise CannotMake(f"{', '.join(missing)} is not installed: make guests installs it")
    kernel = _kernel(directory)
    initrd = _initrd(directory, kernel)
    image = directory / "tiny.raw"
    with open(image, "wb") as file:
        file.truncate(24 * units.Mi)
    config = directory / "syslinux.cfg"
    config.write_text(_SYSLINUX)
    _run("mformat", "-i", str(image), "-T", str(24 * units.Mi // 512), "-h", "16", "-s", "63", "::")
    vmlinuz = next((kernel / "boot").glob("vmlinuz-*"))
    for source, target in ((vmlinuz, "vmlinuz"), (initrd, "initrd"), (config, "syslinux.cfg")):
        _run("mcopy", "-i", str(image), str(source), f"::{target}")
    _run("syslinux", "--install", str(image))
    return image


def _kernel(directory: pathlib.Path) -> pathlib.Path:
    """Download Debian's kernel and unpack it; nothing is installed."""
    depends = _run("apt-cache", "depends", "--important", _PACKAGE)
    newest = next(line.split()[-1] for line in depends.splitlines() if "Depends:" in line)
    _run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", newest, at=directory)
    unpacked = directory / "kernel"
    _run("dpkg-deb", "-x", str(next(directory.glob("linux-image-*.deb"))), str(unpacked))
    return unpacked


def _initrd(directory: pathlib.Path, kernel: pathlib.Path) -> pathlib.Path:
    root = directory / "initrd"
    for name in ("bin", "modules", "proc", "sys", "dev", "seed", "etc"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", root / "bin" / "busybox")
    for module in _MODULES:
        shutil.copy(next(kernel.rglob(f"{module}.ko")), root / "modules")
    init = root / "init"
    init.write_text(_INIT.format(modules=" ".join(_MODULES), beats_at=BEATS_MB))
    init.chmod(init.stat().st_mode | stat.S_IXUSR)
    packed = directory / "initrd.cpio"
    with open(packed, "wb") as file:
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*"))) + "\n"
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), stdout=file, check=True)
    return packed


def _run(*command: str, at: pathlib.Path | None = None) -> str:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMake(f"{' '.join(command[:2])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
