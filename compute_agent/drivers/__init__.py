# SPDX-License-Identifier: Apache-2.0
"""What really runs a guest: ``base`` is the interface, ``fake`` simulates, ``local`` runs processes on this machine.

``guest_record`` is what both keep on disk; ``machine`` reads this machine's inventory, ``process`` knows a process for
certain, ``guest`` is the supervisor that outlives the agent.
"""

from __future__ import annotations

from oslo_config import cfg

from compute_agent import loading
from compute_agent.drivers.base import ComputeDriver
from compute_agent.drivers.fake import FakeDriver
from compute_agent.drivers.local import LocalDriver

BUILT_IN: dict[str, type[ComputeDriver]] = {"fake": FakeDriver, "local": LocalDriver}
NAMESPACE = "fleet.compute.drivers"


def driver_class(name: str) -> type[ComputeDriver]:
    """What ``compute_driver`` names. :raises errors.ClassNotFound: naming it and the reason"""
    return loading.find_class("compute_driver", name, ComputeDriver, BUILT_IN, NAMESPACE)


def load(conf: cfg.ConfigOpts) -> ComputeDriver:
    """One driver for one host. :raises errors.ConfigError: it cannot run with this configuration"""
    return driver_class(conf.compute_driver)(conf)
