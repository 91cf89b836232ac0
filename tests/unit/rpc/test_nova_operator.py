# SPDX-License-Identifier: Apache-2.0
"""The calls of the ``fleet`` command to a scheduler for nova can be sent in the version of the scheduler's API."""

from __future__ import annotations

from fleet.rpc import versions
from fleet.rpc.clients import NovaOperatorAPI


def test_versions_of_its_methods() -> None:
    """The versions of the conductor's API do not count here."""
    needed = [NovaOperatorAPI._newer.get(method) for method in NovaOperatorAPI.METHODS]
    assert set() == {each for each in needed if each} - set(versions.accepted("scheduler"))
