# SPDX-License-Identifier: Apache-2.0
"""Guests as virtual machines: QEMU domains that libvirt runs on this machine.

Vocabulary: a *domain* is libvirt's word for a guest; a *base* is the data of an image in the cache; an *overlay* is a qcow2
file that has what a guest changed of its base; the *seed* is a small disk with what the guest's cloud-init reads.

Read ``driver`` (the steps of each method), then ``domain_xml`` (what the domain gets), ``guest_disks`` with
``image_cache``, ``seed`` and ``resize`` (its files), ``peer`` and ``arrival`` (they come to another host), ``live`` (the
guest goes there while it runs), ``capabilities`` and ``pci_devices`` (the inventory), ``power`` (its state), ``volumes``
(disks that come and go), ``interfaces`` (plugs into networks), ``connection`` (libvirt itself: the only module that loads
it).
"""

from compute_agent.drivers.libvirt.driver import LibvirtDriver

__all__ = ["LibvirtDriver"]
