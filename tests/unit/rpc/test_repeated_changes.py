# SPDX-License-Identifier: Apache-2.0
"""Which messages are recorded, and which copies of a message a server handles."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from unittest import mock

import amqp
import pytest

import conductor_stub
from fleet.context import new_context
from fleet.rpc.clients.operator import api
from fleet.rpc.rabbit.lean import incoming, wire
from fleet.rpc.trust import repeated_changes
from tests.unit.rpc.test_lean_threads import SETTINGS

#: The first words of methods that change something.
VERBS = (
    "abort add attach cancel confirm create delete detach evacuate extend force live lock manage migrate pause rebuild "
    "reboot remove rename reset resize resume retype revert run set shelve skip start stop suspend unlock unmanage unset "
    "unshelve update"
)


def methods() -> set[str]:
    """Of the namespace ``operator``."""
    found: set[str] = set()
    for module in pkgutil.walk_packages(conductor_stub.__path__, "conductor_stub."):
        for _name, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if getattr(getattr(each, "target", None), "namespace", None) == "operator":
                public = inspect.getmembers(each, inspect.isfunction)
                found |= {name for name, method in public if hasattr(method, "__wrapped__") and name[0] != "_"}
    return found


def test_changes_are_recorded_and_reads_are_not() -> None:
    """A read that none of the rules knows would cost two commits; a change that is not recorded may be made twice."""
    known = methods()
    recorded = {name for name in known if repeated_changes.is_recorded("operator", name)}
    changes = {name for name in known if name.partition("_")[0] in VERBS.split()} - {"live_obstacles"}
    assert changes == recorded | repeated_changes.WITH_TOKEN
    assert known >= repeated_changes.READS
    assert set(api.WITH_TOKEN) == repeated_changes.WITH_TOKEN


def test_other_namespaces_are_not_recorded() -> None:
    """Their messages find a row that has moved on, or have a token."""
    namespaces = (None, "compute_task", "migration", "volume", "baseapi")
    assert not any(repeated_changes.is_recorded(each, "create_snapshot") for each in namespaces)


@pytest.mark.parametrize(("queues", "handled"), [(("q1", "q1"), 1), (("q1", "q2"), 2), (("", ""), 1)])
def test_a_copy_that_names_another_queue_for_its_reply(
    monkeypatch: pytest.MonkeyPatch, queues: tuple[str, str], handled: int
) -> None:
    """The node with the former queue is dead, and the first reply was lost with it."""
    monkeypatch.setattr(incoming.Listener, "_connect", lambda _listener: None)
    listener, taken = incoming.Listener(SETTINGS, mock.Mock(), []), []
    for each in queues:
        body = wire.request_body(new_context(), {"method": "m"}, "m1" if each else "", each, None, "u1")
        message = amqp.Message(body, content_type="application/json", content_encoding="utf-8")
        message.delivery_info = {"redelivered": False, "exchange": ""}
        found = listener._take("conductor", mock.Mock(is_lost=False), message)
        taken += [found[1].unique_id] if found else []
    assert ["u1"] * handled == taken
