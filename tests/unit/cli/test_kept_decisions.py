# SPDX-License-Identifier: Apache-2.0
"""``fleet explain --request``: the newest decision in full, and those before it in a line each."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fleet.client.calls import Calls
from fleet.client.connection import CommandFailed
from fleet_cli.planning import explain


class Kept:
    """A connection whose conductor has these decisions."""

    def __init__(self, *decisions: dict[str, Any], silent: tuple[str, ...] = ()) -> None:
        self.operator = self
        self._answer = {"decisions": list(decisions), "silent": list(silent)}

    def list_decisions(self, request_id: str) -> dict[str, Any]:
        return self._answer


def made(at: float, host: str, **more: Any) -> dict[str, Any]:
    pick = {"instance_uuid": "u", "host": host, "nodename": host, "weight": 1.5, "alternates": []}
    details = {"requested": 1, "considered": 2, "placed": 1, "filters": []}
    return {"at": at, "scheduler": "s1", "outcome": "placed", "picks": [pick], "details": details, **more}


def shown(*decisions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return explain.kept(cast(Calls, Kept(*decisions, **more)), "req-1")


def test_the_newest_and_those_before() -> None:
    refused = made(61.0, "", outcome="refused", picks=[], message="No host.", details={"reason_code": "CAPACITY"})
    found = shown(made(0.0, "host1"), refused, made(120.0, "host2"), silent=("s2",))
    assert ("1970-01-01 00:02:00+00:00", "placed", 2) == (found["at"], found["outcome"], found["considered"])
    assert ["1970-01-01 00:00:00+00:00 placed host1", "1970-01-01 00:01:01+00:00 refused No host."] == found["earlier"]
    assert ["s2"] == found["silent"]
    assert set(explain.KEPT_FIELDS) >= set(found) - {"details", "message"}


def test_nothing_is_kept() -> None:
    with pytest.raises(CommandFailed, match="no decision of request req-1 is kept; scheduler s2 does not answer"):
        shown(silent=("s2",))
