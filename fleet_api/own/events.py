# SPDX-License-Identifier: Apache-2.0
"""``GET /fleet/v1/events``: what happens to builds, volumes and hosts, as server-sent events.

Called by :mod:`fleet_api.application` and :mod:`fleet_api.serving.http_server`. The format is that of
https://html.spec.whatwg.org/multipage/server-sent-events.html. Each stream takes a thread for as long as it lasts;
``[api] event_streams`` and ``event_streams_per_user`` bound them, and they have threads of their own. The sender of a
stream is authenticated and authorised again each minute: a stream does not outlive its user's right. Before each reading
the stream looks whether its client has gone, so the place is free for the next page within a second.
"""

from __future__ import annotations

import collections
import functools
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import falcon
import oslo_messaging
from oslo_log import log as logging

from fleet import errors
from fleet.client import pages
from fleet.json_codec import JSONMapping
from fleet.rpc.clients.operator.instances import Newest
from fleet_api.access import identity
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault

LOG = logging.getLogger(__name__)

PATH = "/fleet/v1/events"
#: Seconds between two readings of events, and readings of events between two readings of hosts.
EVERY_S = 1.0
_HOSTS_EVERY = 5
#: Readings without an event after which a comment is sent: a proxy or a client may close a connection that is silent.
_COMMENT_EVERY = 10
#: Readings after which the sender is authorised again.
_AUTHORISE_EVERY = 60
#: Milliseconds after which a client that was cut off comes back.
_RETRY_MS = 3000
#: Digits of an id: what a database column holds.
_LONGEST_ID = 18
#: What waitress calls the function that says whether the client of a request has gone.
_GONE = "waitress.client_disconnected"
#: Fields of events that only the administrator gets.
_OF_HOSTS = ("host", "message")


class Streams:
    """The streams that are open in this process. ``_lock`` guards their numbers.

    :param most: how many there may be
    :param most_of_user: how many of one user; None: as many
    """

    def __init__(self, most: int, most_of_user: int | None = None) -> None:
        self.most = most
        self._most_of_user = most if most_of_user is None else most_of_user
        self._lock = threading.Lock()
        self._open: collections.Counter[str] = collections.Counter()
        self._closing = threading.Event()
        #: Called by the thread of a request that has got a place.
        self.taken: Callable[[], object] = lambda: None

    def close(self) -> None:
        """End all streams."""
        self._closing.set()

    def pause(self) -> bool:
        """Wait until the next look; False if the process ends."""
        return not self._closing.wait(EVERY_S)

    def take(self, user: str) -> Place:
        """Return a place for a stream, which counts until it is given back. :raises Fault: there are enough"""
        with self._lock:
            if self._open.total() >= self.most:
                raise Fault(503, f"All {self.most} streams of events are in use ([api] event_streams).")
            if self._open[user] >= self._most_of_user:
                option = "[api] event_streams_per_user"
                raise Fault(429, f"You follow {self._most_of_user} streams of events already ({option}).")
            self._open[user] += 1
        self.taken()
        return Place(functools.partial(self._ended, user))

    def _ended(self, user: str) -> None:
        with self._lock:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]


class Place:
    """May be given back more than once."""

    def __init__(self, ended: Callable[[], object]) -> None:
        self._ended: Callable[[], object] | None = ended

    def give_back(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()


class _Held(Iterator[bytes]):
    """Gives the place back also if nothing was read: a generator that never ran does not reach its ``finally``."""

    def __init__(self, stream: Iterator[bytes], place: Place) -> None:
        self._stream = stream
        self._place = place

    def __next__(self) -> bytes:
        try:
            return next(self._stream)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Called by the server when the client has gone."""
        self._place.give_back()


class Events:
    def __init__(self, conductor: Conductor, streams: Streams) -> None:
        self._conductor = conductor
        self._streams = streams

    @guard.by("fleet:events")
    @answers.gives(answers.Answer(entire=str, media_type="text/event-stream"))
    @bodies.asks("last")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """From now on, or from what the header ``Last-Event-ID`` names; with ``last``, that many before now come first.

        :raises errors.InvalidInput: Fault:
        """
        position = _position(request.get_header("Last-Event-ID"))
        last = bodies.number(request, "last")
        earlier: list[Mapping[str, object]] = []
        place = self._streams.take(request.context.caller.user_id)
        try:
            if position is None:
                newest: Newest = {"last": last} if last else {}
                found = self._conductor.operator(request).list_events(**newest)
                position, earlier = found["position"], list(found["events"])
            response.stream = _Held(self._stream(request, position, earlier), place)
        except BaseException:
            place.give_back()
            raise
        response.content_type = "text/event-stream"
        response.set_header("Cache-Control", "no-store")
        response.set_header("X-Accel-Buffering", "no")

    def _stream(
        self, request: falcon.Request, position: Mapping[str, int], earlier: Sequence[JSONMapping]
    ) -> Iterator[bytes]:
        """Yield the texts of events until the client has gone or the process ends. :param earlier: events that come first"""
        sees_all = identity.sees_all(request)
        first = "".join(_texts(earlier, sees_all, position))
        yield f"retry: {_RETRY_MS}\n\n{first}".encode()
        known: set[tuple[str, int]] = {(each["kind"], each["id"]) for each in earlier}
        hosts: dict[str, tuple[str, str]] | None = None
        has_gone = request.env.get(_GONE, lambda: False)
        quiet, is_away = 0, False
        for look in itertools.count():
            lines: list[str] = []
            if look and look % _AUTHORISE_EVERY == 0:
                try:
                    identity.authorise_again(request)
                except (falcon.HTTPError, Fault) as refused:
                    LOG.info("A stream of events ends: its user may not follow it any more: %s", refused)
                    return
                sees_all = identity.sees_all(request)
            try:
                if sees_all and look % _HOSTS_EVERY == 0:
                    before, hosts = hosts, pages.host_states(self._conductor.operator(request))
                    lines += [_text("host", change) for change in self._changes(request, before, hosts)]
                found = self._conductor.operator(request).list_events(after=dict(position))
                position = found["position"]
                fresh = [each for each in found["events"] if (each["kind"], each["id"]) not in known]
                known = {(each["kind"], each["id"]) for each in found["events"]}
                if is_away:
                    lines.insert(0, _text("back", {"message": "A conductor answers again."}))
                    is_away = False
                lines += _texts(fresh, sees_all, position)
            except (errors.FleetError, oslo_messaging.MessagingException, Fault) as failure:
                # A Fault: the broker is known to be away, so no conductor was asked.
                if not is_away:
                    LOG.warning("A stream of events waits for the conductor: %s", failure)
                    lines.append(_text("away", {"message": "The conductor does not answer."}))
                is_away = True
            quiet = 0 if lines else quiet + 1
            if quiet and quiet % _COMMENT_EVERY == 0:
                lines.append(": nothing new\n\n")
            if lines:
                yield "".join(lines).encode()
            if not self._streams.pause() or has_gone():
                return

    def _changes(
        self,
        request: falcon.Request,
        before: Mapping[str, tuple[str, str]] | None,
        now: Mapping[str, tuple[str, str]],
    ) -> Iterator[dict[str, object]]:
        """Yield what has changed, from the hosts that were and are down or disabled: a large fleet has few of them."""
        if before is None:
            return
        others = sorted(before.keys() - now.keys())
        found = {**now, **(pages.host_states(self._conductor.operator(request), others) if others else {})}
        for host in sorted(before.keys() | now.keys()):
            if before.get(host) != found.get(host):
                state, status = found.get(host, ("gone", "gone"))
                yield {"host": host, "state": state, "status": status}


def _shown(event: Mapping[str, object], sees_all: bool) -> dict[str, object]:
    return {name: value for name, value in event.items() if sees_all or name not in _OF_HOSTS}


def _texts(found: Sequence[JSONMapping], sees_all: bool, position: Mapping[str, int]) -> Iterator[str]:
    """Yield the events of one reading. Only the last one has the id: a client that was cut off before gets all again."""
    for number, each in enumerate(found, 1):
        yield _text(each["kind"], _shown(each, sees_all), position if number == len(found) else None)


def _text(kind: str, data: Mapping[str, object], position: Mapping[str, int] | None = None) -> str:
    """Return an event; the JSON of ``data`` has no line ends."""
    name = f"id: {position['instance']}.{position['volume']}\n" if position else ""
    return f"{name}event: {kind}\ndata: {json.dumps(data)}\n\n"


def _position(header: str | None) -> dict[str, int] | None:
    """:raises errors.InvalidInput: it is no id of an event of ours"""
    if not header:
        return None
    parts = header.split(".")
    if len(parts) != len(("instance", "volume")) or not all(part.isascii() and part.isdigit() for part in parts):
        raise errors.InvalidInput(field="Last-Event-ID", reason="is no id of an event")
    instance, volume = (int(part[:_LONGEST_ID]) for part in parts)
    return {"instance": instance, "volume": volume}
