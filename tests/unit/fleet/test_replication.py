# SPDX-License-Identifier: Apache-2.0
"""How many standbys confirm a commit, by PostgreSQL's ``synchronous_standby_names``."""

from __future__ import annotations

import pytest

from fleet.db.connection import replication


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", 0),
        ("  ", 0),
        ("db2", 1),
        ("db2, db3", 1),
        ("*", 1),
        ("ANY 1 (db2, db3)", 1),
        ("first 2 (db2,db3)", 2),
        ("2(*)", 2),
    ],
)
def test_required(names: str, expected: int) -> None:
    """The forms that PostgreSQL accepts."""
    assert expected == replication.required(names)
