# SPDX-License-Identifier: Apache-2.0
"""Flavors, images, groups, quotas and key pairs. The queries of :mod:`fleet.db.catalog` read and write them."""

from __future__ import annotations

import datetime
from typing import Protocol

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, NAME, UUID, HeldJSON, Timestamp, number
from fleet.json_codec import JSONList, JSONObject

flavors = sa.Table(
    "flavors",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("flavorid", NAME, nullable=False, unique=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    number("vcpus"),
    number("memory_mb"),
    number("root_gb"),
    number("ephemeral_gb"),
    number("swap"),
    sa.Column("extra_specs", sa.JSON, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("is_public", sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    sa.Column("description", sa.Text),
)
#: The projects that may use a flavor that is not public.
flavor_projects = sa.Table(
    "flavor_projects",
    METADATA,
    sa.Column("flavor_id", sa.ForeignKey("flavors.id"), primary_key=True),
    sa.Column("project_id", NAME, primary_key=True),
)


class FlavorRow(Protocol):
    """A row of flavors."""

    id: int
    flavorid: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    swap: int
    extra_specs: JSONObject
    created_at: datetime.datetime
    is_public: bool
    description: str | None


#: One row: the sizes that the fleet is asked for (``fleet.objects.flavor_mix``), faded until ``faded_until``. Instances are
#: counted until ``counted_until``; the generations are those of the last two counts.
flavor_mix = sa.Table(
    "flavor_mix",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("mix", sa.JSON, nullable=False),
    sa.Column("faded_until", Timestamp, nullable=False),
    sa.Column("counted_until", Timestamp, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("former_generation", sa.BigInteger, nullable=False),
)


class FlavorMixRow(Protocol):
    """The row of flavor_mix."""

    id: int
    version: int
    mix: JSONList
    faded_until: datetime.datetime
    counted_until: datetime.datetime
    generation: int
    former_generation: int


images = sa.Table(
    "images",
    METADATA,
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("location", sa.Text, nullable=False),
    sa.Column("checksum", sa.String(255), nullable=False),
    sa.Column("disk_format", sa.String(32), nullable=False),
    sa.Column("min_ram", sa.Integer, nullable=False),
    sa.Column("min_disk", sa.Integer, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("properties", sa.JSON, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)


class ImageRow(Protocol):
    """A row of images."""

    uuid: str
    name: str
    location: str
    checksum: str
    disk_format: str
    min_ram: int
    min_disk: int
    size: int
    properties: JSONObject
    created_at: datetime.datetime


instance_groups = sa.Table(
    "instance_groups",
    METADATA,
    sa.Column("uuid", UUID, primary_key=True),
    sa.Column("name", NAME, nullable=False),
    sa.Column("policy", sa.String(32), nullable=False),
    sa.Column("max_server_per_host", sa.Integer, nullable=False, default=1),
    #: Rules over labels of hosts; NULL if there are none.
    sa.Column("rules", HeldJSON),
    sa.Column("project_id", NAME),
    sa.Column("created_at", Timestamp, nullable=False),
    sa.Column("user_id", NAME),
    sa.Index(None, "project_id", "name"),
)


class GroupRow(Protocol):
    """A row of instance_groups."""

    uuid: str
    name: str
    policy: str
    max_server_per_host: int
    rules: JSONList | None
    project_id: str | None
    created_at: datetime.datetime
    user_id: str | None


instance_group_members = sa.Table(
    "instance_group_members",
    METADATA,
    sa.Column("group_uuid", sa.ForeignKey("instance_groups.uuid"), primary_key=True),
    sa.Column("instance_uuid", sa.ForeignKey("instances.uuid"), primary_key=True),
)


#: Limits that projects have of their own; NULL stands for the default. The lock of a row lets one transaction at a time
#: take what its project may have (``fleet.db.catalog.quotas``).
quotas = sa.Table(
    "quotas",
    METADATA,
    sa.Column("project_id", NAME, primary_key=True),
    *(
        sa.Column(name, sa.Integer)
        for name in ("instances", "cores", "ram", "server_groups", "volumes", "gigabytes", "local_gb")
    ),
)


class QuotaRow(Protocol):
    """A row of quotas."""

    project_id: str
    instances: int | None
    cores: int | None
    ram: int | None
    server_groups: int | None
    volumes: int | None
    gigabytes: int | None
    local_gb: int | None


#: Public keys by project and user; the empty text is one that is not known.
project_key_pairs = sa.Table(
    "project_key_pairs",
    METADATA,
    sa.Column("project_id", NAME, primary_key=True),
    sa.Column("user_id", NAME, primary_key=True),
    sa.Column("name", NAME, primary_key=True),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)


class KeyPairRow(Protocol):
    """A row of project_key_pairs."""

    project_id: str
    user_id: str
    name: str
    public_key: str
    created_at: datetime.datetime


#: Those of conductors of earlier releases, by user only. This release does not read them.
key_pairs = sa.Table(
    "key_pairs",
    METADATA,
    sa.Column("user_id", NAME, primary_key=True),
    sa.Column("name", NAME, primary_key=True),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("created_at", Timestamp, nullable=False),
)
