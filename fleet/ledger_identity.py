# SPDX-License-Identifier: Apache-2.0
"""The identity of the ledger that a process works for.

A database gets a uuid when its tables are made. Conductors and schedulers read it there; an agent receives it with the
answer to its registration and keeps it with its hosts' identities. Every message carries it, and a receiver that works
for another ledger refuses the message: what is true in one database says nothing about another.
"""

from __future__ import annotations

from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)


class LedgerIdentity:
    """One for each process; ``uuid`` is None while it is not known, and then nothing is refused.

    It is one reference, replaced as a whole, so any thread may read it.
    """

    def __init__(self, service: str = "service", uuid: str | None = None) -> None:
        self._service = service
        self._uuid = uuid

    @property
    def uuid(self) -> str | None:
        return self._uuid

    def learn(self, uuid: str | None) -> None:
        """Take over what the database, or a conductor, has told; None changes nothing."""
        if uuid is None or uuid == self._uuid:
            return
        if self._uuid is not None:
            LOG.error(
                "The database holds another ledger now: %s, it was %s. Going on with the new one.", uuid, self._uuid
            )
        self._uuid = uuid

    def check(self, theirs: object) -> None:
        """:raises errors.ForeignLedger: a message of another ledger; a sender that names none is tolerated"""
        if theirs is None or self._uuid is None or theirs == self._uuid:
            return
        raise errors.ForeignLedger(theirs=str(theirs)[:36], ours=self._uuid, service=self._service)
