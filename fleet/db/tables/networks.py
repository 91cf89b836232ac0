# SPDX-License-Identifier: Apache-2.0
"""Networks, the projects that may use them, and the addresses that instances have claimed.

:mod:`fleet.db.catalog.networks` and :mod:`fleet.db.instances.addresses` read and write them.
"""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, Timestamp

#: Addresses are numbers. ``next_number`` is where the search for a free one begins, so that an address that was released is
#: claimed again as late as possible. The lock of a row lets one transaction at a time claim addresses of the network.
networks = sa.Table(
    "networks",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("bridge", sa.String(15), nullable=False),
    sa.Column("subnet", sa.String(18), nullable=False),
    sa.Column("first_number", sa.BigInteger, nullable=False),
    sa.Column("last_number", sa.BigInteger, nullable=False),
    sa.Column("next_number", sa.BigInteger, nullable=False),
    sa.Column("gateway", sa.String(15)),
    sa.Column("dns", sa.JSON, nullable=False),
    sa.Column("is_default", sa.Boolean, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)


class NetworkRow(Protocol):
    """A row of networks."""

    uuid: str
    name: str
    bridge: str
    subnet: str
    first_number: int
    last_number: int
    next_number: int
    gateway: str | None
    dns: list[str]
    is_default: bool
    created_at: datetime.datetime


#: A network without a row here is every project's.
network_projects = sa.Table(
    "network_projects",
    METADATA,
    sa.Column("network_uuid", sa.ForeignKey("networks.uuid"), primary_key=True),
    sa.Column("project_id", NAME, primary_key=True),
)

#: The claims of instances. The unique constraint is what keeps an address from two instances.
addresses = sa.Table(
    "addresses",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("network_uuid", sa.ForeignKey("networks.uuid"), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), nullable=False, index=True),
    sa.Column("mac", sa.String(17), nullable=False, unique=True),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.UniqueConstraint("network_uuid", "number"),
)
