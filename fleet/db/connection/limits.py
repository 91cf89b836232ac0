# SPDX-License-Identifier: Apache-2.0
"""Parameters of the drivers that limit how long a daemon waits for its database; see :mod:`.options`.

:mod:`fleet.db.engine.database` and :mod:`fleet.db.nova.engine` set them.
"""

from __future__ import annotations

from urllib import parse

import sqlalchemy as sa
from oslo_config import cfg

from fleet.db.connection.options import Limits


def limits(url: sa.URL, asked: cfg.ConfigOpts.GroupAttr | Limits) -> dict[str, str]:
    """Parameters of the driver that limit its waiting; those that the URL has stay as they are.

    Without ``statement_timeout`` a statement may take any time. On MariaDB a read time-out would end it, so there is none.
    """
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
        found = {"connect_timeout": str(asked.connect_timeout), "write_timeout": str(silent_s)}
        if asked.statement_timeout:
            found["read_timeout"] = str(silent_s)
    return {name: value for name, value in found.items() if name not in url.query}


def encoded(parameters: dict[str, str]) -> str | None:
    """Return parameters as oslo.db appends them to the URL."""
    return parse.urlencode(parameters, quote_via=parse.quote) or None
