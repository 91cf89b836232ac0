# SPDX-License-Identifier: Apache-2.0
"""I10: one request id through all logs, and no secret in them or in anything that is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.chaos.world import ChaosWorld
from tests.invariants.ledger import Ledger, Row

#: What an agent says before it dies so.
_DIED_UNTOLD = "Failpoint agent.finish.after: exit"


class Logs:
    """What the daemons have written since ``rewind``."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._offsets: dict[str, int] = {}
        self.rewind()

    def rewind(self) -> None:
        self._offsets = {path.name: path.stat().st_size for path in self._paths()}

    def read(self) -> dict[str, str]:
        found = {}
        for path in self._paths():
            with path.open("rb") as file:
                file.seek(self._offsets.get(path.name, 0))
                found[path.stem] = file.read().decode(errors="replace")
        return found

    def _paths(self) -> list:
        return sorted(self._world.directory.glob("*.log"))


def every_build_can_be_followed(active: list[Row], logs: dict[str, str]) -> Iterator[str]:
    """I10: an ACTIVE instance's request id is in a conductor's, a scheduler's and an agent's lines, with its uuid.

    An agent that was made to die when the ledger had its build, and it had not said so yet, cannot have told; nor of those
    that ended in the same call, which may be all of a request.
    """
    lines: dict[str, list[str]] = {kind: [] for kind in ("conductor", "scheduler", "agent")}
    for name, text in logs.items():
        kind = name.partition("-")[0]
        if kind in lines:
            lines[kind].append(text)
    joined = {kind: "\n".join(texts) for kind, texts in lines.items()}
    if _DIED_UNTOLD in joined["agent"]:
        del joined["agent"]
    for row in active:
        for kind in joined:
            if row["request_id"] not in joined[kind]:
                yield f"{row['uuid']}: its request id {row['request_id']} is in no {kind}'s log"


def no_secret_is_told(world: ChaosWorld, ledger: Ledger, logs: dict[str, str]) -> Iterator[str]:
    """I10: neither in a log, a fault, an answer nor a notification.

    Notifications carry an instance's metadata in a field of that name, which is meant to be there.
    """
    places = {
        **logs,
        "a fault": json.dumps(list(ledger.faults.values()), default=str),
        "an answer": "\n".join(world.refusals),
        "a notification": json.dumps([_without_metadata(each) for each in world.notifications()], default=str),
    }
    for what, secret in world.secrets.items():
        for name, text in places.items():
            if secret in text:
                yield f"the {what}'s secret is in {name}: {_around(secret, text)}"


def _around(secret: str, text: str) -> str:
    """Return the first line with the secret, masked and shortened, to find the code that wrote it."""
    line = next(each for each in text.splitlines() if secret in each)
    at = line.index(secret)
    return f"{line[:300]} … {line[max(at - 200, 0) : at + 200]}".replace(secret, "***")


def _without_metadata(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_metadata(each) for key, each in value.items() if key != "metadata"}
    return [_without_metadata(each) for each in value] if isinstance(value, list) else value
