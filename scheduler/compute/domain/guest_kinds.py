# SPDX-License-Identifier: Apache-2.0
"""The names of processor architectures, hypervisor types and vm modes, and what else they are called.

:mod:`scheduler.compute.filters.image_properties` compares by them.
"""

from __future__ import annotations

from collections.abc import Mapping

_ARCHITECTURES = (
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64 mips64el "
    "openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64 unicore32 x86_64 "
    "xtensa xtensaeb"
)
#: ``local`` is the type of our own driver that runs guests as processes.
_HYPERVISOR_TYPES = (
    "baremetal bhyve docker fake hyperv ironic kqemu kvm local lxc lxd openvz parallels phyp prsm qemu test uml vbox "
    "vmware vz xen zvm"
)
ARCHITECTURES = frozenset(_ARCHITECTURES.split())
HYPERVISOR_TYPES = frozenset(_HYPERVISOR_TYPES.split())
VM_MODES = frozenset(["hvm", "xen", "uml", "exe"])
_ARCHITECTURE_ALIASES = {
    **dict.fromkeys(["i386", "i486", "i586", "x86_32", "x86_32p"], "i686"),
    "amd64": "x86_64",
}
_HYPERVISOR_ALIASES = {"xapi": "xen"}
_MODE_ALIASES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}


def architecture(name: str) -> str:
    """The name that hosts report. :raises ValueError:"""
    return _canonical(name, "architecture", ARCHITECTURES, _ARCHITECTURE_ALIASES)


def hypervisor_type(name: str) -> str:
    """The name that hosts report. :raises ValueError:"""
    return _canonical(name, "hypervisor type", HYPERVISOR_TYPES, _HYPERVISOR_ALIASES)


def vm_mode(name: str) -> str:
    """The name that hosts report. :raises ValueError:"""
    return _canonical(name, "vm mode", VM_MODES, _MODE_ALIASES)


def _canonical(name: str, kind: str, known: frozenset[str], aliases: Mapping[str, str]) -> str:
    lower = name.lower()
    canonical = aliases.get(lower, lower)
    if canonical not in known:
        raise ValueError(f"{name!r} is no {kind}; known are {', '.join(sorted(known))}")
    return canonical
