# SPDX-License-Identifier: Apache-2.0
"""The options of group ``[database]``: oslo.db's, and limits for a server that does not answer.

Called by :mod:`fleet.conf` and :mod:`fleet.db.engine.database`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Self

from oslo_config import cfg
from oslo_db import options

GROUP = "database"


@dataclasses.dataclass(frozen=True)
class Limits:
    """The options of the same names, in seconds, with their defaults."""

    connect_timeout: int = 5
    peer_timeout: int = 10
    statement_timeout: int = 60

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        register_limits(conf)
        return cls(*(conf.database[each.name] for each in dataclasses.fields(cls)))


#: Where the configuration says nothing.
USUAL = Limits()
OPTS = [
    cfg.IntOpt(
        "connect_timeout",
        default=Limits.connect_timeout,
        min=1,
        help="Seconds to open a connection, for each address of the server.",
    ),
    cfg.IntOpt(
        "peer_timeout",
        default=Limits.peer_timeout,
        min=1,
        help="Seconds after which a server that has vanished or hangs counts as lost: its connections are closed, and their "
        "transactions run again on new ones. On PostgreSQL it sets keepalives and tcp_user_timeout, and sessions that "
        "wait for a server which does not answer new connections, or is not the one that does, are cut. On MariaDB "
        "it is the longest time to wait for a row lock or the first row of a query, too.",
    ),
    cfg.IntOpt(
        "statement_timeout",
        default=Limits.statement_timeout,
        min=0,
        help="Seconds after which PostgreSQL ends a statement; 0 never. fleet-manage has no such limit. It is sent as a "
        "start-up parameter: PgBouncer needs ignore_startup_parameters = options, or 0 here.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    options.set_defaults(conf)
    register_limits(conf)


def register_limits(conf: cfg.ConfigOpts) -> None:
    """Register the options that are not oslo.db's."""
    conf.register_opts(OPTS, GROUP)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(GROUP, OPTS)]
