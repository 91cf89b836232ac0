# SPDX-License-Identifier: Apache-2.0
"""How long a driver of the database waits, by database and options."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from fleet.db.connection import limits, options

MARIADB, POSTGRESQL = "mysql+pymysql://f@db/fleet", "postgresql+psycopg2://f@db/fleet"
KEEPALIVES = {"keepalives_idle": "5", "keepalives_interval": "1", "keepalives_count": "3", "tcp_user_timeout": "10000"}


@pytest.mark.parametrize(
    ("url", "statement_s", "expected"),
    [
        (MARIADB, 60, {"connect_timeout": "5", "read_timeout": "10", "write_timeout": "10"}),
        # fleet-manage: a migration of a large table is read for as long as it takes
        (MARIADB, 0, {"connect_timeout": "5", "write_timeout": "10"}),
        (f"{MARIADB}?connect_timeout=2", 0, {"write_timeout": "10"}),
        (POSTGRESQL, 60, {"connect_timeout": "5", **KEEPALIVES, "options": "-c statement_timeout=60000"}),
        (POSTGRESQL, 0, {"connect_timeout": "5", **KEEPALIVES}),
        ("sqlite://", 60, {}),
    ],
)
def test_limits_of_a_driver(url: str, statement_s: int, expected: dict[str, str]) -> None:
    """Those that the URL names stay as they are; without a limit for statements, no read ends one."""
    conf = cfg.ConfigOpts()
    options.register_limits(conf)
    conf([], default_config_files=[])
    conf.set_override("statement_timeout", statement_s, "database")
    assert expected == limits.limits(sa.make_url(url), conf.database)
    assert expected == limits.limits(sa.make_url(url), options.Limits.from_conf(conf))
