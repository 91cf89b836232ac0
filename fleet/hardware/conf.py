# SPDX-License-Identifier: Apache-2.0
"""Options of NUMA cells and PCI devices, which several services read. :mod:`fleet.conf` registers them."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

PCI_OPTS = [
    cfg.MultiStrOpt(
        "alias",
        default=[],
        deprecated_opts=[cfg.DeprecatedOpt("pci_alias", group="DEFAULT")],
        help="A name for PCI devices, as JSON. Keys: name, and any of vendor_id, product_id, device_type (type-PCI, "
        "type-PF, type-VF, vdpa) and numa_policy (required, legacy, preferred, socket). May be given several times; "
        "the same name again adds an alternative. A flavor requests devices with the extra spec pci_passthrough:alias "
        '= NAME:COUNT. Example: {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}. Read by the conductor.',
    ),
]

COMPUTE_OPTS = [
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        default=False,
        help="Which NUMA cells of a host an instance gets if several would do. True: the fullest, so that whole cells stay "
        "free for large instances. False: the emptiest, so that the load spreads. Read by the agents.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    for group, opts in _groups():
        conf.register_opts(opts, group=group)


def _groups() -> list[tuple[cfg.OptGroup, Sequence[cfg.Opt]]]:
    """Create the groups anew for each caller: a group keeps the values set on it."""
    return [
        (cfg.OptGroup("pci", title="PCI devices"), PCI_OPTS),
        (cfg.OptGroup("compute", title="Compute hosts"), COMPUTE_OPTS),
    ]


def list_opts() -> list[tuple[cfg.OptGroup, Sequence[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return _groups()
