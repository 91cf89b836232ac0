# SPDX-License-Identifier: Apache-2.0
"""The options of ``[decisions]``: what schedulers keep of their decisions.

Called by :mod:`fleet.conf` and :mod:`scheduler.compute.drivers.kept_decisions`.
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = "decisions"
OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "file",
        default="",
        help="File in which a scheduler keeps its decisions, such as /var/lib/fleet/decisions.db. 'fleet explain --request' "
        "shows them: the hosts that were chosen then, their weights, the counts of the filters, the reason of a refusal. "
        "It is written after the answer. All workers of a machine share it. Its directory must be there, and writable "
        "for fleet-scheduler. Set it to find out later why an instance is where it is. Empty: decisions are only logged.",
    ),
    cfg.IntOpt(
        "most",
        default=100_000,
        min=1,
        help="How many decisions are kept; older ones are removed. One takes about 2 kB of the file, one of many instances "
        "more. Raise it if decisions of the last days are not found.",
    ),
    cfg.IntOpt(
        "keep_days",
        default=7,
        min=1,
        help="Days for which decisions are kept. Related: most, which may remove them earlier.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(GROUP, OPTIONS)]
