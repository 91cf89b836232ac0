# SPDX-License-Identifier: Apache-2.0
"""What really runs a guest: ``base`` is the interface, ``fake`` simulates, ``local`` runs processes on this machine.

``guest_record`` is what both keep on disk; ``machine`` reads this machine's inventory, ``process`` knows a process for
certain, ``guest`` is the supervisor that outlives the agent.
"""

from __future__ import annotations

from importlib import metadata

from oslo_config import cfg
from oslo_utils import importutils

from compute_agent.drivers.base import ComputeDriver
from compute_agent.drivers.fake import FakeDriver
from compute_agent.drivers.local import LocalDriver
from fleet import errors

BUILT_IN: dict[str, type[ComputeDriver]] = {"fake": FakeDriver, "local": LocalDriver}
NAMESPACE = "fleet.compute.drivers"


def driver_class(name: str) -> type[ComputeDriver]:
    """What ``compute_driver`` names. :raises errors.ClassNotFound: naming it and the reason"""
    found = BUILT_IN.get(name) or (_by_path(name) if "." in name else _by_entry_point(name))
    if not (isinstance(found, type) and issubclass(found, ComputeDriver)):
        raise _not_found(name, "it is not a subclass of compute_agent.drivers.base.ComputeDriver")
    return found


def load(conf: cfg.ConfigOpts) -> ComputeDriver:
    """One driver for one host. :raises errors.ConfigError: it cannot run with this configuration"""
    return driver_class(conf.compute_driver)(conf)


def _by_path(name: str) -> object:
    try:
        return importutils.import_class(name)
    except ImportError as missing:
        raise _not_found(name, str(missing)) from None


def _by_entry_point(name: str) -> object:
    for entry_point in metadata.entry_points(group=NAMESPACE, name=name):
        return entry_point.load()
    known = ", ".join(BUILT_IN)
    raise _not_found(name, f"it is none of {known}, no entry point in {NAMESPACE} and no dotted path")


def _not_found(name: str, reason: str) -> errors.ClassNotFound:
    return errors.ClassNotFound(option="compute_driver", class_name=name, reason=reason)
