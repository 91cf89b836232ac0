# SPDX-License-Identifier: Apache-2.0
"""Opens an engine for a database of nova.

The engine's timeouts end a query on a server that has vanished or hangs. Called by the modules beside it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from oslo_db.sqlalchemy import engines

from fleet import errors
from fleet.db.connection import driver, limits, primary, silent_peer
from fleet.db.connection.options import Limits
from fleet.db.engine import failures


def opened(url: str, option: str, within: Limits, **options: Any) -> sa.Engine:
    """Return an engine, which has no connection yet.

    :param option: names the option with the URL, for messages
    :param options: further arguments of oslo.db
    :raises errors.ConfigError: the URL is invalid, or its driver is missing
    """
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise errors.ConfigError(option=option, reason="is not the URL of a database") from None
    driver.require(url, option)
    failures.keep_libraries_quiet()
    parameters = limits.encoded(limits.limits(parsed, within))
    engine: sa.Engine = engines.create_engine(
        url, max_retries=0, thread_checkin=False, connection_parameters=parameters, **options
    )
    engine.hide_parameters = True
    if engine.dialect.name == "postgresql":
        silent_peer.SilentPeer(engine, primary.Primary(engine), within.peer_timeout)
    return engine
