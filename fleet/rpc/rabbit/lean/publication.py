# SPDX-License-Identifier: Apache-2.0
"""A message on its way to the broker, and how that ended.

:mod:`fleet.rpc.rabbit.lean.outgoing` makes one for each message.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import time
from collections.abc import Callable

from fleet.rpc import backoff
from fleet.rpc.rabbit.lean import topology

#: Times that the broker may refuse a message before it is given up.
_MOST_REFUSALS = 3
#: Seconds after the first rejection for which a message is published again, and of the pauses between. A quorum queue
#: rejects messages while it has no leader, which takes some seconds after its node died.
_REJECTED_S = 30.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0
_numbers = itertools.count(1)


class Outcome(enum.Enum):
    """The end of a publication."""

    ACCEPTED = "accepted"
    UNDELIVERABLE = "undeliverable"
    REFUSED = "refused"
    #: The broker cannot store it now.
    REJECTED = "rejected"
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
    rejected_since: float | None = None
    pauses: backoff.Backoff | None = None
    remake: Callable[[str], bytes] | None = None
    #: Of a call: the queue that its body names.
    reply_queue: str = ""

    def refuse(self) -> None:
        """End as lost, so that the sender publishes it again; as refused the last time.

        A forbidden message closes the channel. The broker does not say which of the messages on it was forbidden.
        """
        self.refusals += 1
        self.ended(Outcome.REFUSED if self.refusals >= _MOST_REFUSALS else Outcome.LOST)

    def reject(self) -> None:
        """End as rejected, so that the sender publishes it again after :meth:`pause_s`; as refused after ``_REJECTED_S``."""
        now = time.monotonic()
        if self.rejected_since is None:
            self.rejected_since, self.pauses = now, backoff.Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self.ended(Outcome.REFUSED if now - self.rejected_since >= _REJECTED_S else Outcome.REJECTED)

    def pause_s(self) -> float:
        """Return the seconds to wait before it is published."""
        return self.pauses.pause_s() if self.pauses is not None else 0.0
