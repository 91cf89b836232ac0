# SPDX-License-Identifier: Apache-2.0
"""Options of the volume agent, and of each storage backend.

:mod:`volume_agent.main` registers them, and the sample file of the options lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from fleet import conf as fleet_conf

#: Section with the defaults of the options of all backends.
DEFAULTS = "backend_defaults"

OPTS = [
    cfg.ListOpt(
        "enabled_backends",
        default=[],
        help="Storage backends that this fleet-volume serves. Each has a section of this name with the options of "
        "[backend_defaults], and is known as HOST@NAME. An element may be a range such as fake[01-20]; a backend without a "
        "section has the defaults.",
    ),
    cfg.StrOpt(
        "storage_availability_zone",
        default="nova",
        help="Availability zone of the backends of this fleet-volume. Related: backend_availability_zone.",
    ),
    cfg.IntOpt(
        "backend_stats_polling_interval",
        default=60,
        min=3,
        help="Seconds between two reports of the pools. What volumes claim does not depend on reports: the ledger counts "
        "it at once.",
    ),
    cfg.IntOpt(
        "volume_threads",
        default=16,
        min=1,
        help="Number of volumes that this fleet-volume makes or removes at the same time.",
    ),
    cfg.StrOpt(
        "volume_state_path",
        default="/var/lib/fleet/volumes",
        help="Directory for the identity of each backend. It must survive a restart of the agent. Never copy it to another "
        "machine.",
    ),
]

BACKEND_OPTS = [
    cfg.StrOpt(
        "volume_driver",
        help="Driver of the backend. directory: each volume is a file below a path. lvm: each is a logical volume. fake: "
        "volumes are records in memory, for trials and tests. Otherwise an entry point in fleet.volume.drivers, or the "
        "dotted path of a subclass of volume_agent.drivers.base.VolumeDriver.",
    ),
    cfg.StrOpt(
        "volume_backend_name",
        help="Name that volume types choose the backend by (extra spec volume_backend_name). Several backends may have the "
        "same. Default: the name of the section.",
    ),
    cfg.StrOpt(
        "backend_availability_zone",
        help="Availability zone of the backend. Default: storage_availability_zone.",
    ),
    cfg.IntOpt(
        "reserved_percentage",
        default=0,
        min=0,
        max=100,
        help="Percentage of the capacity of each pool that volumes must leave free.",
    ),
    cfg.StrOpt(
        "max_over_subscription_ratio",
        default="20.0",
        help="How many times its capacity a pool may promise to thin volumes. A number from 1 to 10000, or auto: the ratio "
        "then follows how much the volumes of the pool really use.",
    ),
    cfg.StrOpt("filter_function", help="Expression that DriverFilter evaluates for the backend's pools."),
    cfg.StrOpt("goodness_function", help="Expression that GoodnessWeigher evaluates for the backend's pools."),
    cfg.DictOpt(
        "extra_capabilities",
        default={},
        help="Capabilities to report besides those of the driver, as KEY:VALUE, ... Volume types match them with extra "
        "specs.",
    ),
    cfg.DictOpt(
        "directory_pools",
        default={},
        help="Pools of the driver directory, as NAME:PATH, ... The capacity of a pool is that of the file system of PATH. "
        "Give each pool a file system of its own: what else is stored there takes from its free space.",
    ),
    cfg.DictOpt(
        "lvm_pools",
        default={},
        help="Pools of the driver lvm: NAME:GROUP for thick volumes in a volume group, NAME:GROUP/POOL for thin ones in its "
        "thin pool, ... Both must exist. Needs lvm2, and the right to run it.",
    ),
    cfg.StrOpt(
        "volume_format",
        default="raw",
        choices=[("raw", "A sparse file."), ("qcow2", "A qcow2 image. Needs the program qemu-img.")],
        help="Format of the volumes of the driver directory. Volumes of a type with provisioning:type=thick occupy their "
        "space at once.",
    ),
    cfg.DictOpt(
        "fake_pools",
        default={"pool": "1000"},
        help="Pools of the driver fake, as NAME:GIB, ... GIB may be infinite or unknown.",
    ),
    cfg.DictOpt(
        "fake_existing",
        default={},
        help="What lies on the pools of the driver fake and can be managed, as POOL/NAME:GIB, ...",
    ),
    cfg.BoolOpt("fake_thin", default=True, help="Whether the pools of the driver fake can hold thin volumes."),
    cfg.FloatOpt("fake_delay", default=0.0, min=0.0, help="Seconds that the driver fake takes to make a volume."),
    cfg.ListOpt(
        "fake_failures",
        default=[],
        help="Pools of the driver fake on which each volume fails.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)
    conf.register_opts(BACKEND_OPTS, group=cfg.OptGroup(DEFAULTS, title="Storage backends"))


def options_of(conf: cfg.ConfigOpts, backend: str) -> cfg.ConfigOpts.GroupAttr:
    """Return the options of a backend: those of its section, and the defaults for those that it does not set.

    :raises cfg.ConfigFileValueError: a value cannot be used; the message names its section, option and file
    """
    conf.register_group(cfg.OptGroup(backend))
    for option in BACKEND_OPTS:
        conf.register_opt(option, group=backend)
        conf.set_default(option.dest, conf[DEFAULTS][option.dest], group=backend)
    fleet_conf.read_section(conf[backend], backend)
    return conf[backend]


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [("DEFAULT", OPTS), (DEFAULTS, BACKEND_OPTS)]
