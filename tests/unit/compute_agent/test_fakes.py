# SPDX-License-Identifier: Apache-2.0
"""The ledgers in memory honour the interface of the real clients."""

from __future__ import annotations

import inspect

import pytest

from fleet.rpc.clients import ComputeTaskAPI, ConductorAPI, MigrationAPI
from tests.worlds.agent_ledger import AgentLedger
from tests.worlds.move_ledger import MoveLedger

METHODS = [
    pytest.param(api, name, id=f"{api.__name__}.{name}")
    for api in (ConductorAPI, ComputeTaskAPI, MigrationAPI)
    for name, _ in inspect.getmembers(api, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.parametrize(("api", "name"), METHODS)
def test_same_signature(api: type, name: str) -> None:
    """Every call of the client exists with the same parameters."""
    fake = MoveLedger if api is MigrationAPI else AgentLedger
    assert inspect.signature(getattr(api, name)) == inspect.signature(getattr(fake, name))
