# SPDX-License-Identifier: Apache-2.0
"""What work has cost: processor time by part, messages at the broker, commits at the database."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tests.bench import daemons


@dataclasses.dataclass(frozen=True)
class Reading:
    """Counters since the parts began; the difference of two is what happened between."""

    cpu_s: Mapping[str, float]
    published: int
    commits: int

    def since(self, former: Reading) -> Reading:
        return Reading(
            {name: spent - former.cpu_s[name] for name, spent in self.cpu_s.items()},
            self.published - former.published,
            self.commits - former.commits,
        )


def read(here: daemons.Site, parts: Mapping[str, Sequence[int]]) -> Reading:
    """:param parts: process ids by name"""
    cpu_s = {name: sum(map(daemons.cpu_s, pids)) for name, pids in parts.items()}
    return Reading(cpu_s, _published(here), here.server.commits())


def _published(here: daemons.Site) -> int:
    """Messages that clients have published to the broker, answers and fanouts included: the node counts them itself."""
    found = "maps:get(messages_received_total, maps:get([{protocol,amqp091}], rabbit_global_counters:overview()))."
    return int(here.broker.ctl("eval", found))
