# SPDX-License-Identifier: Apache-2.0
"""The database itself: the generation of its newest commit, and signatures and outcomes of messages.

Called by :mod:`fleet.db.tables.models`.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleet.db.tables.base import METADATA, UUID, Timestamp, generation

#: One row: the generation of the newest commit. Its row lock makes commit order equal generation order. The columns with
#: names of tables hold the newest generation that changed each. They are valid if ``noted`` equals ``value``: a program
#: older than these columns advances only ``value``. ``ledger`` is the identity of the database (``fleet.ledger_identity``).
#: ``host_key`` is a secret, from which ids of hosts are made (``fleet.objects.host_id``).
generations = sa.Table(
    "generations",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("value", sa.BigInteger, nullable=False),
    generation("services"),
    generation("aggregates"),
    generation("instances"),
    generation("volumes"),
    generation("noted"),
    sa.Column("ledger", UUID),
    sa.Column("host_key", sa.String(64)),
)


#: Signatures of messages until they expire (see ``fleet.rpc.trust.replay_protection``).
taken_signatures = sa.Table(
    "taken_signatures",
    METADATA,
    sa.Column("signature", sa.String(64), primary_key=True),
    sa.Column("good_until", Timestamp, nullable=False, index=True),
)

#: Changes that a conductor has begun, and their outcomes as JSON text (see ``fleet.rpc.trust.repeated_changes``).
#: ``message`` is a digest of a message and its unique id, ``holder`` the one attempt to carry it out.
message_outcomes = sa.Table(
    "message_outcomes",
    METADATA,
    sa.Column("message", sa.String(64), primary_key=True),
    sa.Column("holder", UUID, nullable=False),
    sa.Column("outcome", sa.Text),
    sa.Column("good_until", Timestamp, nullable=False, index=True),
)
