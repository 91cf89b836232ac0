# SPDX-License-Identifier: Apache-2.0
"""The incoming side of a driver: a connection that consumes some queues, and the messages that it takes.

Called by the modules beside it and those of :mod:`fleet.rpc.rabbit`. A message is acknowledged when a thread takes it,
before it is handled, as oslo.messaging does: the rows of the ledger make good what a killed process loses, and a
message that kills its process does not come again. The broker hands out ``rabbit_qos_prefetch_count`` more messages,
which it gives to others if this process ends.

A server may name methods whose messages are acknowledged after they are handled. If the process is killed meanwhile, the
broker gives the message to another server, which answers. One that has been delivered before is acknowledged before it is
handled, so that it kills two processes at most. Of these methods, the prefetch count limits how many messages a process
handles at a time.
"""

from __future__ import annotations

import collections
import functools
import threading
import time
from collections.abc import Callable, Collection, Iterable

import amqp
from oslo_log import log as logging

from fleet.rpc import backoff, oslo_drivers, threads
from fleet.rpc.rabbit import broker_refusals, message_body
from fleet.rpc.rabbit.lean import topology, wire
from fleet.rpc.rabbit.lean.consumption import Consumption
from fleet.rpc.rabbit.lean.link import LOST, Away, Link, opened, opened_to
from fleet.rpc.rabbit.lean.nodes import Nodes
from fleet.rpc.rabbit.lean.outgoing import Outgoing
from fleet.rpc.rabbit.lean.settings import Settings
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Messages that are remembered by unique id and queue for the reply, to drop one that comes twice. One that names another
#: queue was published again after its caller had lost the former one: it is handled, because the first reply is lost.
_REMEMBERED = 64
_BEGIN_AGAIN_S = 0.1
_LONGEST_PAUSE_S = 5.0
_dropped = rate_limited_log.RateLimit()


class Incoming(oslo_drivers.RpcIncomingMessage):
    """A request that was taken. Replies go out on the driver's outgoing connection."""

    def __init__(
        self,
        request: wire.Request,
        outgoing: Outgoing,
        settle: Callable[[], object] | None = None,
        exchange: str = "",
        own_exchange: str = "",
    ) -> None:
        """:param settle: acknowledges the message after it was handled; None: that was done before
        :param exchange: the one that the sender has published to
        :param own_exchange: the one that the receiver has bound the queue to; others may have bound it to more
        """
        super().__init__(request.context, request.message, request.msg_id)
        self._settle = settle
        self._request = request
        self._outgoing = outgoing
        self.unique_id = request.unique_id
        #: Set it to None, and the message is not answered.
        self.orig_msg_id = request.msg_id
        self.client_timeout = request.sign_of_life_s
        self.reply_q = request.reply_queue
        self.size = request.size
        self.exchange, self.own_exchange = exchange, own_exchange

    def reply(self, reply: object = None, failure: object = None) -> None:
        """Send the result, or ``sys.exc_info()`` as the failure, if the sender waits for it."""
        if self.orig_msg_id and self._request.reply_queue:
            body = wire.reply_body(self.orig_msg_id, reply, failure)
            self._outgoing.reply(self._request.reply_queue, body)

    def handled(self) -> None:
        """The message was handled, and will not come again."""
        if self._settle is not None:
            self._settle()

    def heartbeat(self) -> None:
        """Tell the caller that its call is being handled."""
        if self.orig_msg_id and self._request.reply_queue:
            self._outgoing.reply(self._request.reply_queue, wire.reply_body(self.orig_msg_id, ending=False))

    def requeue(self) -> None:
        """Do nothing: the message has been acknowledged."""


class Listener(oslo_drivers.PollStyleListener):
    """Consumes some queues on a connection of its own. Any number of threads may call :meth:`poll` at a time.

    ``_opening`` guards the opening of a connection, ``_lock`` the ids that are remembered.

    :param queues: declared and consumed whenever the connection opens
    """

    def __init__(self, settings: Settings, outgoing: Outgoing, queues: Iterable[topology.Queue]) -> None:
        super().__init__(settings.prefetch)
        self._settings = settings
        self._outgoing = outgoing
        self._queues = {each.name: each for each in queues}
        #: Methods whose messages are acknowledged after they are handled.
        self.acknowledged_late: Collection[str] = ()
        self._opening, self._lock = threading.Lock(), threading.Lock()
        self._stopped = threading.Event()
        self._pauses = backoff.Backoff(_BEGIN_AGAIN_S, _LONGEST_PAUSE_S)
        self._nodes = Nodes(settings.brokers, settings.return_interval_s)
        self._current: Consumption | None = None
        #: Former connections, with messages that are not acknowledged yet.
        self._former: list[Consumption] = []
        self._returning: threading.Thread | None = None
        #: Messages with the names of their queues and their connections, and the marks of :meth:`settle`.
        self._arrived: collections.deque[tuple[str, Consumption, amqp.Message] | threading.Event] = collections.deque()
        self._seen: collections.deque[tuple[str, str | None]] = collections.deque(maxlen=_REMEMBERED)
        self._connect()

    def poll(
        self, timeout: float | None = None, batch_size: int = 1, batch_timeout: float | None = None
    ) -> list[Incoming]:
        """Return the next message in a list; an empty list after the timeout, or once the listener is stopped."""
        taken = self._next(None if timeout is None else time.monotonic() + timeout)
        return [] if taken is None else [taken[1]]

    def _next(self, deadline: float | None) -> tuple[str, Incoming] | None:
        """Return the next message with the name of its queue."""
        while True:
            while self._arrived:
                try:
                    arrived = self._arrived.popleft()
                except IndexError:  # another thread took it
                    break
                if self._arrived:
                    self._wake_another()
                if isinstance(arrived, threading.Event):
                    arrived.set()
                elif (taken := self._take(*arrived)) is not None:
                    return taken
            if self._stopped.is_set():
                self._wake_another()
                return None
            if deadline is not None and time.monotonic() >= deadline:
                return None
            self._listen(deadline)

    def _listen(self, deadline: float | None) -> None:
        """Wait until messages may have arrived. A lost connection is opened again."""
        current = self._current or self._opened()
        if current is None or self._stopped.is_set():  # a stop() while it opened found no connection to wake
            return
        link = current.link
        left = link.tick_s if deadline is None else min(link.tick_s, max(0.0, deadline - time.monotonic()))
        try:
            if link.wait(left):
                link.read()
            link.heartbeat()
            if current is self._current and not (link.connection.connected and current.channel.is_open):
                raise amqp.ConnectionError("the broker has closed the connection or the channel")
            self._pauses.reset()
        except LOST as lost:
            with self._opening:
                if self._lose(current, lost):
                    broker_refusals.log_refusal("messages cannot be received", lost)
                    self._stopped.wait(self._pauses.pause_s())
        if self._former:
            self._attend_former()
        if self._nodes.should_return(link.broker) and self._opening.acquire(blocking=False):
            # Other threads read the connection meanwhile, or this one does.
            returning = threads.started(
                self._return_home, "rpc-returning", "The connection for receiving stays where it is"
            )
            if returning is None:
                self._nodes.lost(self._nodes.home)  # until the next look
                self._opening.release()
            else:
                self._returning = returning

    def _wake_another(self) -> None:
        """Wake one thread that waits: there is another message, or the listener is stopped."""
        current = self._current
        if current is not None:
            current.link.wake()

    def _take(self, queue: str, source: Consumption, message: amqp.Message) -> tuple[str, Incoming] | None:
        """Acknowledge a message and read it. None if it cannot be read, came before, or will come again."""
        if source.is_lost:
            return None  # the broker will deliver it again
        may_wait = bool(self.acknowledged_late) and not message.delivery_info["redelivered"]
        if not may_wait and not self._acknowledge(source, message):
            return None
        try:
            request = wire.read_request(*message_body.content_of(message))
        except message_body.Unreadable as unreadable:
            if may_wait:
                self._acknowledge(source, message)
            self._drop(queue, str(unreadable))
            return None
        settle = None
        if may_wait:
            settle = functools.partial(self._acknowledge, source, message)
            method = request.message.get("method")
            if not isinstance(method, str) or method not in self.acknowledged_late:
                if not settle():
                    return None
                settle = None
        if request.unique_id is not None:
            copy = request.unique_id, request.reply_queue
            with self._lock:
                came_before = copy in self._seen
                self._seen.append(copy)
            if came_before:
                if settle is not None:
                    settle()
                metrics.MESSAGES_REPEATED.inc()
                LOG.debug("A message in queue %s is dropped: it came before", queue)
                return None
        served = self._queues.get(queue)
        own_exchange = served.exchange.name if served is not None else ""
        return queue, Incoming(request, self._outgoing, settle, message.delivery_info["exchange"], own_exchange)

    def _acknowledge(self, source: Consumption, message: amqp.Message) -> bool:
        """Return False if the connection is lost: the message will come again."""
        try:
            return source.acknowledge(message)
        except LOST as lost:
            self._lose(source, lost)
        return False

    @staticmethod
    def _drop(queue: str, reason: str) -> None:
        metrics.MESSAGES_UNREADABLE.inc()
        left_out = _dropped.due(reason)
        if left_out is not None:
            LOG.warning(
                "A message in queue %s is dropped: %s (%d more since the last such line)", queue, reason, left_out
            )

    def settle(self, timeout_s: float) -> None:
        """Wait until another thread, which polls, has taken every message that has arrived."""
        mark = threading.Event()
        self._arrived.append(mark)
        self._wake_another()
        mark.wait(timeout_s)

    def stop(self) -> None:
        """Take no more messages. Those that are not acknowledged go back to their queues when the connection closes."""
        self._stopped.set()
        self._wake_another()

    def cleanup(self) -> None:
        self.stop()
        if self._returning is not None:
            self._returning.join()
        for each in (self._current, *self._former):
            if each is not None:
                self._lose(each, None)

    # -- the connection ---------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Open the connection, however long the broker is away: a server has its queues when it starts."""
        while self._opened() is None and not self._stopped.is_set():
            pass
        self._pauses.reset()

    def _opened(self) -> Consumption | None:
        """Return the connection. None after a pause if no broker accepts one."""
        with self._opening:
            if self._current is not None or self._stopped.is_set():
                return self._current
            try:
                self._adopt(self._consuming(opened(self._settings, self._nodes)))
            except (*LOST, Away) as refused:
                broker_refusals.log_refusal("messages cannot be received", refused)
                self._stopped.wait(self._pauses.pause_s())
            return self._current

    def _consuming(self, link: Link) -> Consumption:
        """Consume all queues on a connection. :raises LOST: it is closed"""
        try:
            with link.lock, link.asking():
                made = Consumption(link, self._settings.prefetch)
                for each in list(self._queues.values()):
                    self._consume(made, each)
        except BaseException:
            self._nodes.lost(link.broker)
            link.close()
            raise
        return made

    def _return_home(self) -> None:
        """Go on at the home node if it serves. Call it with ``_opening``, which it releases.

        All queues have two consumers for a moment, so that no message finds a queue missing. One that comes through both
        is dropped by its id.
        """
        try:
            former = self._current
            if former is None or self._stopped.is_set() or not self._nodes.should_return(former.link.broker):
                return
            self._nodes.lost(self._nodes.home)  # until the next look
            link = opened_to(self._nodes.home, self._settings)
            if not self._is_of_the_same_cluster(link, former.link):
                link.close()
                LOG.info("%s is not used yet: the other nodes do not know its queues", self._nodes.home.address)
                return
            self._adopt(self._consuming(link))
            LOG.info("The connection for receiving returns to %s", self._nodes.home.address)
            former.link.wake()
            try:
                former.leave()
            except LOST as lost:
                self._lose(former, lost)
        except LOST as refused:
            LOG.debug("%s does not serve yet: %s", self._nodes.home.address, refused)
        finally:
            self._opening.release()

    def _is_of_the_same_cluster(self, link: Link, former: Link) -> bool:
        """:raises LOST: one of them is lost"""
        probe = topology.reply_queue(self._settings)
        try:
            with link.lock, link.asking():
                topology.declare_queue(link.connection, probe)
            with former.lock, former.asking():
                known = topology.is_known(probe, former.connection)
            with link.lock, link.asking():
                link.connection.channel().queue_delete(probe.name)
        except BaseException:
            link.close()
            raise
        return known

    def _adopt(self, made: Consumption) -> None:
        """Read this connection from now on. Queues may have come and gone since its consumers were made."""
        with self._lock:
            if self._current is not None:
                self._former.append(self._current)
            self._current = made
        try:
            with made.link.lock, made.link.asking():
                for queue in list(self._queues.values()):
                    self._consume(made, queue)
                for name in made.tags.keys() - self._queues.keys():
                    made.channel.basic_cancel(made.tags.pop(name))
        except LOST as lost:
            self._lose(made, lost)

    def _attend_former(self) -> None:
        """Keep former connections alive, and close those that have nothing left to acknowledge."""
        for each in list(self._former):
            try:
                each.link.heartbeat()
            except LOST as lost:
                self._lose(each, lost)
                continue
            if each.is_over:
                self._lose(each, None)

    def _consume(self, made: Consumption, queue: topology.Queue) -> None:
        """Call it with the link's lock."""
        if queue.name in made.tags:
            return
        name = self._declare(made.link, queue)
        made.tags[queue.name] = made.channel.basic_consume(
            name, callback=self._arrival(queue.name, made), on_cancel=self._cancelled
        )

    def _declare(self, link: Link, queue: topology.Queue) -> str:
        """Return the queue's name at the broker."""
        return topology.declare_queue(link.connection, queue)

    def _arrival(self, queue: str, source: Consumption) -> Callable[[amqp.Message], None]:
        def arrived(message: amqp.Message) -> None:
            source.deliver()
            self._arrived.append((queue, source, message))

        return arrived

    def _cancelled(self, tag: str) -> None:
        """The broker has cancelled a consumer: its queue was deleted, or its node is gone."""
        raise amqp.ConnectionError(f"the broker has cancelled consumer {tag}")

    def _lose(self, lost: Consumption, why: BaseException | None) -> bool:
        """Forget a connection. Return False if another thread did, or if it was a former one."""
        with self._lock:
            is_current = lost is self._current
            if is_current:
                self._current = None
            elif lost in self._former:
                self._former.remove(lost)
            else:
                return False
        if why is not None:
            self._nodes.lost(lost.link.broker)
            LOG.info("The connection for receiving is lost: %s", broker_refusals.reason(why))
        lost.close()
        return is_current
