# SPDX-License-Identifier: Apache-2.0
"""The identity of the ledger that a process uses.

A database gets a uuid when its tables are created. Conductors and schedulers read it there. An agent receives it with
the answer to its registration and stores it with its hosts' identities. Every message of a daemon carries it, and a
receiver that uses another ledger refuses the message: its content is about other rows.

A client does not know the ledger. Its message is refused if it came through another exchange than the receiver's. The names
of queues do not have the exchange, so two fleets on one virtual host share them.
"""

from __future__ import annotations

from oslo_log import log as logging

from fleet import control_characters, errors

LOG = logging.getLogger(__name__)


class LedgerIdentity:
    """One for each process. While ``uuid`` is None, nothing is refused.

    The uuid is replaced as a whole, so any thread may read it.
    """

    def __init__(self, service: str = "service", uuid: str | None = None) -> None:
        self._service = service
        self._uuid = uuid

    @property
    def uuid(self) -> str | None:
        return self._uuid

    def learn(self, uuid: str | None) -> None:
        """Store the uuid that the database or a conductor reported; None changes nothing."""
        if uuid is None or uuid == self._uuid:
            return
        if self._uuid is not None:
            LOG.error("The database has another ledger now: %s, it was %s. Using the new one.", uuid, self._uuid)
        self._uuid = uuid

    def check(self, theirs: object, exchange: str = "", own_exchange: str = "") -> None:
        """Refuse a message of another ledger, and one without a ledger that came through another exchange.

        :param exchange: the one that the message came through; empty if that is not known, or is the default exchange
        :raises errors.ForeignLedger:
        """
        if theirs is None and exchange and own_exchange and exchange != own_exchange:
            raise errors.ForeignExchange(
                theirs=control_characters.one_line(exchange[:36]), ours=own_exchange, service=self._service
            )
        if theirs is None or self._uuid is None or theirs == self._uuid:
            return
        raise errors.ForeignLedger(theirs=str(theirs)[:36], ours=self._uuid, service=self._service)
