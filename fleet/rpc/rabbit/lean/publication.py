# SPDX-License-Identifier: Apache-2.0
"""A message on its way to the broker, and how that ended."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Callable

from fleet.rpc.rabbit.lean import topology

#: Times that the broker may refuse a message before it is given up.
_MOST_REFUSALS = 3
_numbers = itertools.count(1)


class Outcome(enum.Enum):
    """How a publication ended."""

    ACCEPTED = "accepted"
    UNDELIVERABLE = "undeliverable"
    REFUSED = "refused"
    LOST = "lost"
    #: Of a call: the queue for its reply is gone, with the node of the broker on which it was.
    REPLY_LOST = "reply lost"


@dataclasses.dataclass
class Publication:
    """A message on its way. ``ended`` is called once for each time that it is published.

    :param remake: of a call: makes the body for the name of another reply queue
    """

    exchange: topology.Exchange
    key: str
    body: bytes
    ended: Callable[[Outcome], object]
    mandatory: bool = False
    expiration_s: float | None = None
    #: Of this message among those of the process: a message that the broker returns has it.
    message_id: str = dataclasses.field(default_factory=lambda: str(next(_numbers)))
    undeliverable: bool = False
    refusals: int = 0
    remake: Callable[[str], bytes] | None = None
    #: Of a call: the queue that its body names.
    reply_queue: str = ""

    def refuse(self) -> None:
        """End as lost, so that the sender publishes it again; as refused the last time.

        A forbidden message closes the channel. The broker does not say which of the messages on it was forbidden.
        """
        self.refusals += 1
        self.ended(Outcome.REFUSED if self.refusals >= _MOST_REFUSALS else Outcome.LOST)
