# SPDX-License-Identifier: Apache-2.0
"""``make up`` reports its hosts when they take builds."""

from __future__ import annotations

import contextlib
from typing import Any

from fleet_trial import trio
from tests.operator_calls import Asked

STOPPING = {"host": "h1", "disabled_reason": "AUTO: its agent is stopping"}


class Restarted(Asked):
    """A conductor whose ledger shows at the first look the agents of a former run, which are stopping."""

    def __init__(self) -> None:
        self.looks = 0

    def ask(self, method: str) -> list[dict[str, Any]]:
        if method == "list_hosts":
            self.looks += 1
            return [{"host": host, "state": "up"} for host in ("h1", "h2")]
        return [STOPPING if self.looks == 1 else {"host": "h1", "disabled_reason": None}]

    def plain_failures(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def impatient(self, timeout_s: float) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def test_agents_of_a_former_run_do_not_count() -> None:
    conductor = Restarted()
    assert 2 == trio.wait_until_ready(conductor, 2)  # type: ignore[arg-type]
    assert 2 == conductor.looks
