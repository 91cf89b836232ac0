# SPDX-License-Identifier: Apache-2.0
"""The outgoing side of a driver: one connection for all that it publishes, and for the replies to its calls.

Publishers write to it, and wait for what they want::

    publish ── write ──▶ pending ── the broker confirms ──▶ accepted      a cast returns; a call waits for its reply
                            ├────── the broker returns it ─▶ undeliverable (mandatory messages)
                            ├────── the connection is lost ▶ published again, with the same unique id
                            ├────── the broker rejects it ─▶ published again on another channel, after a pause
                            └────── it is forbidden ───────▶ published again, a few times

While the broker blocks the connection (``connection.blocked``: it has too little memory or disk space), nothing is written.
Senders wait as they do without a connection; replies are sent when the broker accepts messages again. What was written
before the broker said so may be published twice: the wire contract says why a second copy of a message is harmless.

A thread of the driver opens the connection, and a :class:`.publisher.Publisher` writes to it. The threads that wait for
messages read it (:mod:`.reading`).

The lock of the link guards the connection; ``_lock`` guards which connection is used. The lock of the link is taken first.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
import time

import amqp
from oslo_log import log as logging

from fleet.rpc import backoff
from fleet.rpc.rabbit import broker_refusals
from fleet.rpc.rabbit.lean import topology, wire
from fleet.rpc.rabbit.lean.again import Again
from fleet.rpc.rabbit.lean.callers import Callers
from fleet.rpc.rabbit.lean.link import LOST, Away, Link, broken, opened, opened_to
from fleet.rpc.rabbit.lean.nodes import Nodes
from fleet.rpc.rabbit.lean.publication import Outcome, Publication
from fleet.rpc.rabbit.lean.publisher import Publisher
from fleet.rpc.rabbit.lean.reading import Arrivals, Reading
from fleet.rpc.rabbit.lean.retiring import Retiring
from fleet.rpc.rabbit.lean.settings import Settings
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Unconfirmed replies that are sent again after the loss of a connection; older ones are dropped.
_MOST_REPLIES = 1000
_BEGIN_AGAIN_S = 0.1
_LONGEST_PAUSE_S = 5.0
_BLOCKED = "the broker accepts no messages now: it has too little memory or disk space"
#: Characters of a queue's name in a log line.
_SHOWN = 60
_dropped, _no_thread = rate_limited_log.RateLimit(), rate_limited_log.RateLimit()


def dropped(queue_name: str) -> None:
    """Count a reply whose caller has no queue, and log one line a minute."""
    metrics.ANSWERS_DROPPED.inc()
    left_out = _dropped.due()
    if left_out is not None:
        said = "A reply is dropped: its caller has no queue %s (%d more since the last such line)"
        LOG.warning(said, queue_name[:_SHOWN], left_out)


class NotSent(Exception):
    """The message was not written within the time: there was no connection, or the broker blocked it. The message says
    why.
    """


class Outgoing:
    """Safe for any number of threads. The connection opens with the first message, and again whenever it is lost."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._nodes = Nodes(settings.brokers, settings.return_interval_s)
        self.callers = Callers(settings)
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        #: It writes to the connection; None while there is none.
        self._publisher: Publisher | None = None
        #: Why there is no connection; empty while one is open, and before the first attempt.
        self._problem = ""
        #: Why the newest attempt to open a connection failed; empty while none has.
        self.refusal = ""
        self._retiring: list[Retiring] = []
        #: Replies that are sent when there is a connection again, and those that the broker has rejected.
        self._again: collections.deque[Publication] = collections.deque(maxlen=_MOST_REPLIES)
        self._rejected = Again(self._try, self._closing)
        #: Set when the driver's thread has something else to do than to wait. ``_lock`` guards it and ``_publisher``.
        self._wanted = threading.Event()
        self._reading = Reading(lambda: self.link, self._lost)

    @property
    def link(self) -> Link | None:
        """The connection; None while there is none."""
        publisher = self._publisher
        return publisher.link if publisher is not None else None

    # -- for callers ------------------------------------------------------------------------------------------------

    def publish(self, publication: Publication, timeout_s: float | None, with_queue: bool = False) -> None:
        """Write a message. Its ``ended`` is called later.

        :param timeout_s: how long to wait for a connection; None for ever
        :param with_queue: declare the queue of the routing key too, so that the message waits for a consumer
        :raises NotSent: there is no connection within the time
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if publication.pauses is not None:
            self._closing.wait(publication.pause_s() if timeout_s is None else min(publication.pause_s(), timeout_s))
        while True:
            publisher = self._connected(deadline)
            link = publisher.link
            try:
                with link.lock:
                    if publisher is self._publisher and self._write(publisher, publication, with_queue):
                        return
            except amqp.exceptions.IrrecoverableChannelError:  # of a declaration, which has a channel of its own
                publication.refuse()
                return
            except LOST as lost:
                self._read_what_came(link)
                self._lost(link, lost)
                # On the next connection, the broker takes one message before it blocks that one, too.
                pause_s = _LONGEST_PAUSE_S if link.connection.is_blocked else _BEGIN_AGAIN_S
                self._closing.wait(pause_s if deadline is None else min(pause_s, max(0.0, deadline - time.monotonic())))

    @staticmethod
    def _read_what_came(link: Link) -> None:
        """Read what the broker has sent before a write failed: that it blocks the connection, and confirmations."""
        with contextlib.suppress(*LOST):
            link.read()

    def reply(self, queue_name: str, body: bytes) -> None:
        """Write a reply. It is not waited for.

        A reply that the broker rejects is sent again for some time. A reply without a queue is dropped and counted.
        """

        def ended(outcome: Outcome) -> None:
            if outcome is Outcome.LOST:
                self._again.append(made)
            elif outcome is Outcome.REJECTED:
                self._rejected.add(made)
            elif outcome is not Outcome.ACCEPTED:
                dropped(queue_name)

        made = Publication(topology.Exchange(""), queue_name, body, ended, self._settings.mandatory_replies)
        self._try(made)

    def _try(self, reply: Publication) -> None:
        try:
            self.publish(reply, timeout_s=0.0)
        except NotSent:
            self._again.append(reply)

    def receive(self, arrived: Arrivals, deadline: float | None) -> wire.Reply | Outcome:
        """Return the next message for a caller: see :meth:`.reading.Reading.receive`."""
        return self._reading.receive(arrived, deadline)

    def close(self) -> None:
        """Close the connection; publications and calls under way end as lost."""
        self._closing.set()
        with self._lock:
            link, thread = self.link, self._thread
            self._wanted.set()
            self._ready.notify_all()
        if link is not None:
            link.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        for each in self._retiring:
            each.stop()
            each.join()

    # -- the connection ---------------------------------------------------------------------------------------------

    def _connected(self, deadline: float | None) -> Publisher:
        """:raises NotSent:"""
        with self._lock:
            if self._thread is None and not self._closing.is_set() and self._begin():
                # The first message waits for the first attempt to connect.
                self._ready.wait_for(lambda: self._publisher is not None or self._problem, 30)
            while self._publisher is None or self._publisher.link.connection.is_blocked:
                left = None if deadline is None else deadline - time.monotonic()
                if self._closing.is_set() or (left is not None and left <= 0):
                    raise NotSent(self._problem or ("no connection yet" if self._publisher is None else _BLOCKED))
                if not self._begin():
                    left = _BEGIN_AGAIN_S if left is None else min(left, _BEGIN_AGAIN_S)
                self._ready.wait(left)
            return self._publisher

    def _begin(self) -> bool:
        """Start the driver's thread if there is none. Return False if the process can have no more threads now.

        Call it with ``_lock``.
        """
        if self._thread is not None or self._closing.is_set():
            return True
        thread = threading.Thread(target=self._run, name="rpc-outgoing", daemon=True)
        try:
            thread.start()
        except RuntimeError as failure:
            self._problem = f"the thread that sends does not start: {failure}"
            if _no_thread.due() is not None:
                LOG.error("Messages cannot be sent: %s", self._problem)
            return False
        self._thread, self._problem = thread, ""
        return True

    def _run(self) -> None:
        """Keep a connection open. No error ends the thread: without it, the process sends nothing more."""
        pauses = backoff.Backoff(_BEGIN_AGAIN_S, _LONGEST_PAUSE_S)
        while not self._closing.is_set():
            try:
                self._keep_open(pauses)
            except Exception as failure:
                LOG.exception("The thread that sends has failed; it opens a new connection")
                self._lose_any(broken(failure))
                self._closing.wait(pauses.pause_s())
        self._lose_any(None)

    def _keep_open(self, pauses: backoff.Backoff) -> None:
        """Open a connection and attend to it until it is lost, or make a pause after a refusal."""
        try:
            link = self._open()
        except (*LOST, Away) as refused:
            with self._lock:
                self._problem = self.refusal = broker_refusals.reason(refused)
                self._ready.notify_all()
            broker_refusals.log_refusal("messages cannot be sent", refused)
            self._closing.wait(pauses.pause_s())
            return
        pauses.reset()
        for _reply in range(len(self._again)):
            self._try(self._again.popleft())
        while link is self.link and not self._wanted.is_set():
            self._reading.attend(link, self._wanted, functools.partial(self._is_to_be_left, link))
            if self._is_stalled(link):
                self._lost(link, amqp.ConnectionError("the broker has confirmed nothing for the limit of heartbeats"))
            elif self._nodes.should_return(link.broker) and not self._wanted.is_set():
                self._nodes.lost(self._nodes.home)  # until the next look
                link = self._at_home() or link

    def _is_to_be_left(self, link: Link) -> bool:
        return self._nodes.should_return(link.broker) or self._is_stalled(link)

    def _is_stalled(self, link: Link) -> bool:
        """Return True if this node confirms nothing, and another one may: it stands still, or is without a majority."""
        limit_s = self._settings.heartbeat_s
        if not limit_s or len(self._settings.brokers) < 2 or link.connection.is_blocked:
            return False
        publisher = self._publisher
        return publisher is not None and link is publisher.link and publisher.waits_s() > limit_s

    def _at_home(self) -> Link | None:
        """Open a connection to the home node; None if it does not serve yet."""
        home = self._nodes.home
        try:
            link = opened_to(home, self._settings)
            link.connection.on_free = self._is_free
        except LOST as refused:
            LOG.debug("%s does not accept connections yet: %s", home.address, refused)
            return None
        try:
            reply_queue = topology.reply_queue(self._settings)
            with link.lock, link.asking():
                publisher = Publisher(link, self._settings)
                topology.consume_replies(link.connection, reply_queue, self.callers.replied)
            if not self._is_known(reply_queue):
                raise amqp.ConnectionError("the other nodes do not know its queues: restart it")
        except LOST as refused:
            LOG.debug("%s does not serve yet: %s", home.address, refused)
            link.close()
            return None
        return self._exchanged(publisher, reply_queue)

    def _is_known(self, queue_there: topology.Queue) -> bool:
        link = self.link
        if link is None:
            return False
        with link.lock, link.asking():
            return topology.is_known(queue_there, link.connection)

    def _exchanged(self, new: Publisher, reply_queue: topology.Queue) -> Link | None:
        """Write all to another connection from now on; what is under way ends on the former one."""
        former = self._publisher
        if former is None:
            new.link.close()
            return None
        with former.link.lock, self._lock:
            is_current = former is self._publisher
            if is_current:
                self._publisher = new
                former_queue, waiting = self.callers.exchanged(reply_queue, new.link.connection)
                self._ready.notify_all()  # senders may wait because the former one is blocked
        if not is_current:
            new.link.close()
            return None
        left, home = former.link.broker.address, new.link.broker.address
        LOG.info("The connection for sending returns from %s to %s", left, home)
        retiring = Retiring(
            former,
            former_queue,
            lambda: not waiting.isdisjoint(self.callers.waiting()),
            lambda: self.callers.lose(waiting),
        )
        self._retiring = [each for each in self._retiring if each.is_alive()]
        try:
            retiring.start()
        except RuntimeError as failure:
            LOG.warning("What is under way on the former connection is lost: %s", failure)
            retiring.end()
        else:
            self._retiring.append(retiring)
        return new.link

    def _is_free(self) -> None:
        """The broker accepts messages again. This thread reads the connection, so another one sends the replies."""
        with self._lock:
            self._ready.notify_all()
        for _reply in range(len(self._again)):
            self._rejected.add(self._again.popleft())

    def _lose_any(self, why: BaseException | None) -> None:
        link = self.link
        if link is not None:
            self._lost(link, why)

    def _open(self) -> Link:
        link = opened(self._settings, self._nodes)
        link.connection.on_free = self._is_free
        try:
            with link.lock, link.asking():
                publisher = Publisher(link, self._settings)
                if self.callers.consumed_on is not None:  # replies to earlier calls may be in the queue
                    self.callers.consume(link.connection)
                with self._lock:
                    self._publisher = publisher
                    self._problem = self.refusal = ""
                    if not self._closing.is_set():  # close() waits for the driver's thread to end
                        self._wanted.clear()
                    self._ready.notify_all()
        except BaseException:
            link.close()
            raise
        return link

    def _lost(self, link: Link, why: BaseException | None) -> None:
        """Forget a connection; publications that were not confirmed on it end as lost."""
        with self._lock:
            publisher = self._publisher
            if publisher is None or link is not publisher.link:
                return
            self._publisher = None
            self._wanted.set()
            self._problem = "the driver is closed" if why is None else broker_refusals.reason(why)
        self._nodes.lost(link.broker)
        if why is not None:
            LOG.info("The connection for sending is lost: %s", self._problem)
        for each in publisher.end():
            if isinstance(why, amqp.exceptions.IrrecoverableChannelError):
                each.refuse()
            else:
                each.ended(Outcome.LOST)
        link.wake()
        link.close()

    def _write(self, publisher: Publisher, publication: Publication, with_queue: bool) -> bool:
        """Write a message, which names the queue for its replies. Call it with the link's lock.

        Return False if the connection is lost.
        """
        link = publisher.link
        if publication.remake is not None:
            if link.connection is not self.callers.consumed_on:
                with link.asking():
                    self.callers.consume(link.connection)
                link.wake()  # the caller that waits for the connection may have its reply now
            if publication.reply_queue != self.callers.queue.name:
                publication.reply_queue = self.callers.queue.name
                publication.body = publication.remake(publication.reply_queue)
        return publisher.write(publication, with_queue)
