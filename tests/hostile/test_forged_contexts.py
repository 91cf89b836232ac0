# SPDX-License-Identifier: Apache-2.0
"""The holder of a project's key writes the context of its messages itself, and signs it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fleet import errors
from fleet.context import new_context
from fleet.rpc.clients.api import API, Message
from fleet.rpc.trust import keyring, signing
from tests.hostile.objects import Objects
from tests.hostile.people import OURS
from tests.hostile.world import HostileWorld


class Forger(API):
    """``forged`` are values of the context, in place of those that a client would send."""

    topic, namespace = "conductor", "operator"

    def __init__(self, world: HostileWorld, forged: dict[str, Any]) -> None:
        conf = world._of("project")
        super().__init__(world.transport, conf)
        self._key = keyring.Keyring(conf.message_signing.keys_file).own()
        self._forged = forged

    def _signed(self, context: Any, method: str, version: str, arguments: dict[str, Any], options: Any) -> Any:
        values = {**context.to_dict(), "project_id": OURS, **self._forged}
        at = round(time.time(), 3)
        letter = signing.Letter(self.topic, self.namespace, version, method, arguments)
        mac = letter.signature(self._key, at, values)
        return signing.Sealed({**values, signing.FIELD: {"key": self._key.key_id, "at": at, "mac": mac}})


@pytest.mark.parametrize("is_admin", [{}, [], 0.0, "", 0])
def test_a_value_that_is_neither_true_nor_false(world_: HostileWorld, is_admin: object) -> None:
    """The sender would act for its project before the check, and as the administrator behind it."""
    with pytest.raises(errors.InvalidInput, match="context.is_admin must be true or false"):
        Forger(world_, {"is_admin": is_admin})._ask(new_context(), Message("list_networks", {}))


def test_a_sender_for_a_project_sees_what_its_project_may_see(world_: HostileWorld, theirs: Objects) -> None:
    answer = Forger(world_, {"is_admin": False})._ask(new_context(), Message("list_networks", {}))
    text = json.dumps(answer)
    assert [] == [each for each in theirs.secrets if each in text]


def test_a_sender_that_calls_itself_the_administrator(world_: HostileWorld) -> None:
    with pytest.raises(errors.NotTrusted):
        Forger(world_, {"is_admin": True})._ask(new_context(), Message("list_networks", {}))
