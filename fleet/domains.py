# SPDX-License-Identifier: Apache-2.0
"""The domains of a fleet: virtual machines and volumes.

A daemon may serve one of these domains only. Conductors and schedulers then wire the parts of this domain only.
"""

from __future__ import annotations

from typing import Final

from oslo_config import cfg

from fleet import errors

COMPUTE: Final = "compute"
VOLUME: Final = "volume"
DOMAINS: Final = (COMPUTE, VOLUME)

#: The queue of volumes that wait for a pool. Conductors that place volumes read it.
VOLUME_CONDUCTOR: Final = "volume_conductor"
VOLUME_SCHEDULER: Final = "volume_scheduler"
#: Topics that only fleets with storage backends need.
OF_VOLUMES: Final = (VOLUME_CONDUCTOR, VOLUME_SCHEDULER)


def option(name: str, text: str) -> cfg.Opt:
    """Return an option with the domains that a daemon serves. :param text: its help"""
    return cfg.ListOpt(name, item_type=cfg.types.String(choices=DOMAINS), default=list(DOMAINS), help=text)


def require(conf: cfg.ConfigOpts, name: str) -> list[str]:
    """Return the domains that an option names. :raises errors.ConfigError: it names none"""
    if not conf[name]:
        raise errors.ConfigError(option=name, reason="must name compute, volume or both")
    return list(conf[name])
