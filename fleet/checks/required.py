# SPDX-License-Identifier: Apache-2.0
"""Options that a program cannot work without.

The ``main`` module of each program checks them at its start. The error lists the files that were searched.
"""

from __future__ import annotations

import contextlib
import os

import oslo_messaging
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet import errors
from fleet.rpc import transport

_BROKER = "such as transport_url = rabbit://USER:PASSWORD@HOST:5672/"
_DATABASE = "such as connection = postgresql+psycopg2://USER:PASSWORD@HOST/fleet"


def broker(conf: cfg.ConfigOpts) -> None:
    """Require that ``transport_url`` is set, and has a driver. The library's default is a broker on this machine.

    :raises errors.NotConfigured: errors.ConfigError:
    """
    with contextlib.suppress(oslo_messaging.InvalidTransportURL):
        oslo_messaging.TransportURL.parse(conf)  # registers the option
    place = conf.get_location("transport_url")
    if place is None or place.location is cfg.Locations.opt_default or not conf.transport_url:
        raise errors.NotConfigured(option="[DEFAULT] transport_url", files=files(conf), example=_BROKER)
    transport.get_transport(conf).cleanup()


def database(conf: cfg.ConfigOpts) -> None:
    """Require that ``[database] connection`` is set. :raises errors.NotConfigured:"""
    if not conf.database.connection:
        raise errors.NotConfigured(option="[database] connection", files=files(conf), example=_DATABASE)


def files(conf: cfg.ConfigOpts) -> str:
    """Return a sentence that names the configuration files that were read, or the places that were searched."""
    read = [str(each) for each in [*(conf.config_file or []), *(conf.config_dir or [])]]
    if read:
        return f"Configuration read: {', '.join(read)}."
    path = fleet_conf.DEFAULT_CONFIG_FILE
    return (
        f"No configuration file was found: --config-file is not given, {fleet_conf.CONFIG_FILE_VARIABLE} is not set, "
        f"and {path} {_absence(path)}."
    )


def _absence(path: str) -> str:
    try:
        os.stat(path)
    except FileNotFoundError:
        return "does not exist"
    except OSError as unreachable:
        return f"cannot be read ({unreachable.strerror})"
    return "was not read"
