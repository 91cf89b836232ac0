# SPDX-License-Identifier: Apache-2.0
"""The connection to libvirt: opened again after it was lost, with the lifecycle events of all domains.

Called by the modules beside it and those of :mod:`compute_agent.drivers.libvirt`.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import TYPE_CHECKING, Any

from oslo_log import log as logging

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.libvirt.domains import extra
from fleet.agent import time_limit

if TYPE_CHECKING:
    import libvirt

LOG = logging.getLogger(__name__)

#: Seconds between two keepalive messages, and how many may stay unanswered: a libvirtd that hangs is found out.
_KEEPALIVE_S, _KEEPALIVES = 5, 3
#: Seconds within which libvirt must answer a new connection. Keepalive begins only then.
_OPEN_S = 30.0
#: Milliseconds after which the thread of the events looks whether it is to end, or to open a lost connection again.
_PULSE_MS = 500


class Unreachable(SpawnFailed):
    """libvirt does not answer, or the connection was lost during a call. The outcome of the call is then unknown."""


@functools.cache
def library() -> Any:
    """Return the Python module of libvirt. :raises errors.ConfigError: it is not installed"""
    module = extra.module("libvirt")
    # By default each error is printed on stderr as well.
    module.registerErrorHandler(lambda _context, _error: None, None)
    return module


@functools.cache
def _register_loop() -> None:
    """libvirt has one event loop in a process. It must be there before a connection that sends events is opened."""
    library().virEventRegisterDefaultImpl()


class Opening:
    """One try to open a connection, in a thread of its own: libvirt has no time limit for it.

    A libvirtd that stands still lets clients connect, and answers none of them.
    """

    def __init__(self, uri: str, work: Callable[[], Any]) -> None:
        """:raises Unreachable: there is no thread for it"""
        self._uri = uri
        self._until = time.monotonic() + _OPEN_S
        self._outcome: futures.Future[Any] = futures.Future()
        try:
            threading.Thread(target=self._run, args=(work,), name="libvirt-open", daemon=True).start()
        except RuntimeError as none:
            raise Unreachable(f"libvirt at {uri} cannot be reached: {none}") from None

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._outcome.set_result(work())
        except BaseException as failure:
            self._outcome.set_exception(failure)

    @property
    def is_over(self) -> bool:
        return self._outcome.done()

    def wait(self) -> Any:
        """Return the connection. Whoever waits after the time limit waits no longer.

        :raises Unreachable:
        """
        futures.wait([self._outcome], max(0.0, self._until - time.monotonic()))
        if not self.is_over:
            raise Unreachable(f"libvirt at {self._uri} has not answered a new connection for {_OPEN_S:g} s")
        try:
            return self._outcome.result()
        except library().libvirtError as failure:
            raise Unreachable(f"libvirt at {self._uri} cannot be reached: {failure.get_error_message()}") from None


class Connection:
    """Thread-safe. The lock guards the handle, which is replaced when the connection was lost, and the tries to open one.

    There is one try at a time, which all calls wait for: a libvirt that does not answer takes one thread.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._lock = threading.Lock()
        self._handle: Any = None
        self._opening: Opening | None = None
        #: By address of another host: a try that its libvirt has not answered in time.
        self._late: dict[str, Opening] = {}
        self._changed: Callable[[str], object] | None = None
        self._stopping = threading.Event()
        self._events: threading.Thread | None = None

    def get(self) -> Any:
        """Return the open connection. :raises Unreachable:"""
        with self._lock:
            if self._handle is not None and not self._handle.isAlive():
                LOG.warning("The connection to libvirt at %s is lost", self.uri)
                self._forget()
            if self._handle is not None:
                return self._handle
            opening = self._opening = self._opening or Opening(self.uri, self._open)
        try:
            handle = opening.wait()
        except Unreachable:
            with self._lock:
                if self._opening is opening and opening.is_over:
                    self._opening = None
            raise
        with self._lock:
            if self._opening is opening:
                self._opening, self._handle = None, handle
        return handle

    def call(self, work: Callable[[Any], Any]) -> Any:
        """Call ``work`` with the open connection, and return its result.

        A libvirt that stood still may answer after the caller was given up: the guest must not change then.

        :raises Unreachable:
        :raises time_limit.Overrun: the work of this thread was given up
        :raises libvirt.libvirtError: libvirt refuses it
        """
        handle = self.get()
        time_limit.require_wanted()
        try:
            return work(handle)
        except library().libvirtError as failure:
            if handle.isAlive():
                raise
            raise Unreachable(f"libvirt at {self.uri} was lost: {failure.get_error_message()}") from None

    def open_other(self, uri: str) -> Any:
        """Return a connection of its own to the libvirt of another host. The caller closes it.

        :raises Unreachable:
        """
        with self._lock:
            late = self._late.pop(uri, None)
        opening = late if late is not None and not late.is_over else Opening(uri, lambda: self._opened(uri))
        try:
            return opening.wait()
        except Unreachable:
            if not opening.is_over:
                with self._lock:
                    self._late[uri] = opening
            raise

    def _opened(self, uri: str) -> Any:
        handle = library().open(uri)
        if self._changed is not None:
            handle.setKeepAlive(_KEEPALIVE_S, _KEEPALIVES)
        return handle

    def listen(self, changed: Callable[[str], object]) -> None:
        """Call ``changed`` from now on with the uuid of each domain whose state changes. It must return at once.

        Events are lost while the connection is.
        """
        _register_loop()
        with self._lock:
            self._forget()
            # Its connection would send no events.
            self._opening = None
            self._changed = changed
        if self._events is None:
            self._events = threading.Thread(target=self._run_events, name="libvirt-events", daemon=True)
            self._events.start()

    def close(self) -> None:
        self._stopping.set()
        if self._events is not None:
            self._events.join()
        with self._lock:
            self._forget()

    def _open(self) -> Any:
        handle = self._opened(self.uri)
        if self._changed is not None:
            lifecycle = library().VIR_DOMAIN_EVENT_ID_LIFECYCLE
            handle.domainEventRegisterAny(None, lifecycle, self._on_event, None)
        LOG.info("Connected to libvirt at %s", self.uri)
        return handle

    def _forget(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                handle.close()
            except library().libvirtError as failure:
                LOG.debug("A lost connection to libvirt cannot be closed: %s", failure)

    def _on_event(self, _handle: Any, domain: libvirt.virDomain, *_details: object) -> None:
        if self._changed is not None:
            self._changed(domain.UUIDString())

    def _run_events(self) -> None:
        module = library()
        pulse = module.virEventAddTimeout(_PULSE_MS, lambda _timer, _opaque: None, None)
        was_away = False
        while not self._stopping.is_set():
            try:
                self.get()
                was_away = False
            except Unreachable as away:
                if not was_away:
                    LOG.warning("%s", away)
                was_away = True
            module.virEventRunDefaultImpl()
        module.virEventRemoveTimeout(pulse)
