# SPDX-License-Identifier: Apache-2.0
"""The connection to libvirt: opened again after it was lost, with the lifecycle events of all domains.

Called by the modules beside it and those of :mod:`compute_agent.drivers.libvirt`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oslo_log import log as logging

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.libvirt.domains import extra

if TYPE_CHECKING:
    import libvirt

LOG = logging.getLogger(__name__)

#: Seconds between two keepalive messages, and how many may stay unanswered: a libvirtd that hangs is found out.
_KEEPALIVE_S, _KEEPALIVES = 5, 3
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


class Connection:
    """Thread-safe. The lock guards the handle, which is replaced when the connection was lost."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._lock = threading.Lock()
        self._handle: Any = None
        self._changed: Callable[[str], object] | None = None
        self._stopping = threading.Event()
        self._events: threading.Thread | None = None

    def get(self) -> Any:
        """Return the open connection. :raises Unreachable:"""
        with self._lock:
            if self._handle is not None and not self._handle.isAlive():
                LOG.warning("The connection to libvirt at %s is lost", self.uri)
                self._forget()
            if self._handle is None:
                self._handle = self._open()
            return self._handle

    def call(self, work: Callable[[Any], Any]) -> Any:
        """Call ``work`` with the open connection, and return its result.

        :raises Unreachable:
        :raises libvirt.libvirtError: libvirt refuses it
        """
        handle = self.get()
        try:
            return work(handle)
        except library().libvirtError as failure:
            if handle.isAlive():
                raise
            raise Unreachable(f"libvirt at {self.uri} was lost: {failure.get_error_message()}") from None

    def open_other(self, uri: str) -> Any:
        """Return a connection of its own to the libvirt of another host. The caller closes it."""
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
        module = library()
        try:
            handle = module.open(self.uri)
            if self._changed is not None:
                handle.setKeepAlive(_KEEPALIVE_S, _KEEPALIVES)
                lifecycle = module.VIR_DOMAIN_EVENT_ID_LIFECYCLE
                handle.domainEventRegisterAny(None, lifecycle, self._on_event, None)
        except module.libvirtError as failure:
            raise Unreachable(f"libvirt at {self.uri} cannot be reached: {failure.get_error_message()}") from None
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
