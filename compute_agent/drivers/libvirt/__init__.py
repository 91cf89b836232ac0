# SPDX-License-Identifier: Apache-2.0
"""Guests as virtual machines: QEMU domains that libvirt runs on this machine.

Vocabulary: a *domain* is libvirt's word for a guest; a *base* is the data of an image in the cache; an *overlay* is a qcow2
file that has what a guest changed of its base; the *seed* is a small disk with what the guest's cloud-init reads.

Read ``driver`` (a guest is built), then ``access``, which its parts share: ``inventory``, ``switching``, ``resizes``,
``live_moves`` and ``attaching``, a part for each topic. They call ``domains`` (libvirt) and ``disks`` (files of guests).
"""

from compute_agent.drivers.libvirt.driver import LibvirtDriver

__all__ = ["LibvirtDriver"]
