# SPDX-License-Identifier: Apache-2.0
"""Requests about volumes that are not well-formed: the answer is a typed error that names the field."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from fleet import errors
from fleet.db.engine.database import Database
from tests.worlds.volumes import Volumes

#: By method: its arguments, each well-formed. Nothing has these names.
METHODS: dict[str, dict[str, Any]] = {
    "create_volumes": {"request": {"size": 1, "image": "none"}},
    "list_volumes": {"filters": {"status": "error"}},
    "create_snapshot": {"volume": "none", "name": "s", "metadata": {}},
    "list_snapshots": {"filters": {"snapshot_of": "none"}},
    "show_snapshot": {"name": "none"},
    "delete_snapshot": {"name": "none"},
    "migrate_volume": {"name": "none", "host": "m1@fast"},
    "retype_volume": {"name": "none", "volume_type": "none", "migration_policy": "never"},
    "manage_volume": {"request": {"host": "m1@fast#p1", "reference": "none", "volume_type": "none"}},
    "unmanage_volume": {"name": "none"},
    "attach_volume": {"name": "none", "volume": "none"},
    "detach_volume": {"name": "none", "volume": "none"},
    "list_manageable": {"host": "none"},
    "extend_volume": {"name": "none", "size": 2},
}
JUNK = [5, -1, 1.5, True, "", "two\nlines", "x" * 70_000, [], ["a"], {"a": {}}, [[[]]], b"bytes"]


@pytest.mark.parametrize("method", METHODS)
def test_what_is_malformed_is_refused_with_its_field(database: Database, method: str) -> None:
    """Nothing else than errors of the wire contract is raised, whatever the argument is."""
    volumes = Volumes(database)
    call = getattr(volumes.operator, method)
    for argument, good in METHODS[method].items():
        for junk in JUNK:
            values = [junk, {key: junk for key in good}] if isinstance(good, dict) else [junk]
            for value in values:
                with contextlib.suppress(errors.InvalidInput, errors.NotFound):
                    call(**{**METHODS[method], argument: value})
    assert [] == volumes.operator.list_volumes() + volumes.operator.list_snapshots()
