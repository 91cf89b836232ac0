# SPDX-License-Identifier: Apache-2.0
"""The configuration file and the logging of the programs ``fleet`` and ``fleet-manage``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.rpc import nova_broker

#: Libraries whose information is not for users.
_LIBRARIES = ("oslo_messaging", "oslo", "amqp", "stevedore", "cliff", "alembic", "sqlalchemy")


def add_config_file(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--config-file",
        action="append",
        default=[],
        metavar="FILE",
        help="Configuration file; repeat to read several. Default: the file named by the environment variable "
        f"{fleet_conf.CONFIG_FILE_VARIABLE}, or {fleet_conf.DEFAULT_CONFIG_FILE}.",
    )
    return parser


def quieten(verbose_level: int) -> None:
    """Show only warnings of the libraries, unless the user asked for more."""
    if verbose_level <= 1:
        for library in _LIBRARIES:
            logging.getLogger(library).setLevel(logging.WARNING)


def load(config_files: Sequence[str], prog: str, conf: cfg.ConfigOpts) -> None:
    arguments = [part for file in config_files for part in ("--config-file", file)]
    fleet_conf.load_config(arguments, prog, conf=conf, setup_logging=False)
    nova_broker.use(conf)
