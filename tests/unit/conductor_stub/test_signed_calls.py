# SPDX-License-Identifier: Apache-2.0
"""What the keys of agents may call is what agents can call: no method is forgotten, and none is left over."""

from __future__ import annotations

import inspect

import pytest

from conductor_stub.agents.manager import ConductorManager
from conductor_stub.attachments.progress import AttachmentManager
from conductor_stub.builds.manager import AgentTaskManager
from conductor_stub.moves.manager import MigrationManager
from conductor_stub.volumes.manager import VolumeManager
from fleet.rpc.trust import keyring, signing

ENDPOINTS = {
    None: (ConductorManager, AttachmentManager),
    "compute_task": (AgentTaskManager,),
    "migration": (MigrationManager,),
    "volume": (VolumeManager,),
}
#: What conductors cast to conductors.
OF_CONDUCTORS = {"place_migration", "place_volume"}


@pytest.mark.parametrize("namespace", ENDPOINTS, ids=str)
def test_agents_may_call_what_there_is_for_them(namespace: str | None) -> None:
    """A new method without a line in the table fails, and so does a line without a method."""
    there = {
        name
        for each in ENDPOINTS[namespace]
        for name, _method in inspect.getmembers(each, inspect.isfunction)
        if not name.startswith("_")
    }
    allowed = [methods.get(namespace) or frozenset() for methods in signing.AGENT_TO_CONDUCTOR.values()]
    assert there - OF_CONDUCTORS == set().union(*allowed)


def test_each_namespace_of_agents_has_endpoints() -> None:
    assert set(ENDPOINTS) == {namespace for methods in signing.AGENT_TO_CONDUCTOR.values() for namespace in methods}


def test_kinds_of_agents_are_topics() -> None:
    assert set(keyring.KINDS) == signing.AGENT_TO_CONDUCTOR.keys()
