# SPDX-License-Identifier: Apache-2.0
"""The drivers, which run guests: ``base`` is the interface, ``fake`` simulates, ``local`` runs processes on this
machine, ``libvirt`` virtual machines.

``guest_record`` is what both store of a guest; ``machine`` and ``fake_hardware`` provide inventories.
``compute_agent.guest`` is the supervisor, which outlives the agent.
"""

from __future__ import annotations

from oslo_config import cfg

from compute_agent.drivers.base import ComputeDriver
from fleet.agent import loading

#: Only the one that is used is imported: an agent takes its memory from guests.
BUILT_IN = {
    "fake": "compute_agent.drivers.fake.FakeDriver",
    "libvirt": "compute_agent.drivers.libvirt.LibvirtDriver",
    "local": "compute_agent.drivers.local.LocalDriver",
}
NAMESPACE = "fleet.compute.drivers"


def driver_class(name: str) -> type[ComputeDriver]:
    """Return the class that ``compute_driver`` names. :raises errors.ClassNotFound:"""
    return loading.find_class("compute_driver", name, ComputeDriver, BUILT_IN, NAMESPACE)


def load(conf: cfg.ConfigOpts) -> ComputeDriver:
    """Return a driver for one host. :raises errors.ConfigError: it cannot run with this configuration"""
    return driver_class(conf.compute_driver)(conf)
