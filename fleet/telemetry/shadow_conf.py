# SPDX-License-Identifier: Apache-2.0
"""The options of ``[shadow]``: a second way to decide, which is compared with the one that counts.

Called by :mod:`fleet.conf` and :mod:`scheduler.compute.drivers.shadow`.
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = "shadow"
OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "config_file",
        default="",
        help="Configuration file with other filters, weighers or multipliers. It is read after the files of the scheduler. "
        "A share of the requests for one instance is decided by it as well, after the answer, and compared: docs/shadow.md. "
        "Answers do not change. Empty: no shadow.",
    ),
    cfg.FloatOpt(
        "share",
        default=0.1,
        min=0,
        max=1,
        help="Share of the requests that the shadow decides. Each costs the time of one more decision.",
    ),
    cfg.StrOpt(
        "report_file",
        default="/var/lib/fleet/shadow.json",
        help="File with the sums of the comparisons, also of fleet-scheduler --shadow. All workers of a machine share it. "
        "fleet-manage shadow report prints it.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(GROUP, OPTIONS)]
