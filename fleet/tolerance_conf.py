# SPDX-License-Identifier: Apache-2.0
"""The section [tolerance]: what the whole fleet promises to survive while the ledger has no promise of it.

:mod:`fleet.conf` registers its options. Conductors and schedulers read them, so all of them need the same.
"""

from __future__ import annotations

from oslo_config import cfg

from fleet import errors
from fleet.objects import tolerance

TOLERANCE = "tolerance"
_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "tolerates",
        default="",
        help="What the fleet survives: '1 host', '2 hosts', or '1 rack' with the key of any label in place of 'rack'. The "
        "guests of each such loss then have a place on other hosts. Empty: no promise. 'fleet tolerance set' without a "
        "zone or an aggregate overrides it, until 'fleet tolerance unset'. Read by conductors and schedulers: set it in "
        "the files of all of them.",
    ),
    cfg.StrOpt(
        "policy",
        default=tolerance.WARN,
        choices=[
            (tolerance.WARN, "it is placed where the weighers prefer it, with a line in the log"),
            (tolerance.LAST, "it is placed elsewhere if it can be, else it is placed all the same"),
            (tolerance.REFUSE, "it is placed elsewhere if it can be, else it is refused"),
        ],
        help="What happens to an instance whose placement would break the promise of 'tolerates'.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(_OPTS, group=_group())


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(_group(), _OPTS)]


def of_fleet(conf: cfg.ConfigOpts) -> tolerance.Tolerance | None:
    """Return the promise for the fleet that the options make; None if they make none. :raises errors.ConfigError:"""
    section = conf[TOLERANCE]
    if not section.tolerates.strip():
        return None
    try:
        return tolerance.Tolerance.of_fleet(section.tolerates, section.policy)
    except errors.InvalidInput as wrong:
        raise errors.ConfigError(option="[tolerance] tolerates", reason=wrong.reason) from None


def _group() -> cfg.OptGroup:
    return cfg.OptGroup(TOLERANCE, title="Losses that the fleet survives")
