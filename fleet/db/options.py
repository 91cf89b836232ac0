# SPDX-License-Identifier: Apache-2.0
"""The options of group ``[database]``: oslo.db's, and limits for a server that does not answer."""

from __future__ import annotations

from collections.abc import Sequence
from urllib import parse

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import options

GROUP = "database"
OPTS = [
    cfg.IntOpt(
        "connect_timeout",
        default=5,
        min=1,
        help="Seconds to open a connection, for each address of the server.",
    ),
    cfg.IntOpt(
        "peer_timeout",
        default=10,
        min=1,
        help="Seconds after which a server that has vanished or hangs counts as lost: its connections are closed, and their "
        "transactions run again on new ones. On PostgreSQL it sets keepalives and tcp_user_timeout, and sessions that "
        "wait for a server which does not answer new connections, or is not the one that does, are cut. On MariaDB "
        "it is the longest time to wait for a row lock or the first row of a query, too.",
    ),
    cfg.IntOpt(
        "statement_timeout",
        default=60,
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
    """For oslo-config-generator."""
    return [(GROUP, OPTS)]


def limits(connection: str, asked: cfg.ConfigOpts.GroupAttr) -> dict[str, str]:
    """Parameters of the driver that limit its waiting; those that the URL has stay as they are."""
    url = sa.make_url(connection)
    silent_s = asked.peer_timeout
    found: dict[str, str] = {}
    if url.get_backend_name() == "postgresql":
        found = {
            "connect_timeout": str(asked.connect_timeout),
            "keepalives_idle": str(max(1, silent_s // 2)),
            "keepalives_interval": str(max(1, silent_s // 6)),
            "keepalives_count": "3",
            "tcp_user_timeout": str(1000 * silent_s),
        }
        if asked.statement_timeout:
            found["options"] = f"-c statement_timeout={1000 * asked.statement_timeout}"
    elif url.get_backend_name() in ("mysql", "mariadb"):
        found = {
            "connect_timeout": str(asked.connect_timeout),
            "read_timeout": str(silent_s),
            "write_timeout": str(silent_s),
        }
    return {name: value for name, value in found.items() if name not in url.query}


def encoded(parameters: dict[str, str]) -> str | None:
    """Return parameters as oslo.db appends them to the URL."""
    return parse.urlencode(parameters, quote_via=parse.quote) or None
