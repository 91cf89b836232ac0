# SPDX-License-Identifier: Apache-2.0
"""The Unix socket in front of a hub. One connection carries one message and, for a call, its answer.

Frames are JSON. A client sends one request. The hub answers ``{"accepted": bool}`` and, after a call, heartbeats
(``{}``) and one reply. A hub that dies closes its connections, so callers notice at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import threading
from multiprocessing.connection import Connection
from typing import IO, Self

from fleet.rpc.local import hub

LOG = logging.getLogger(__name__)


class AddressInUse(Exception):
    """Another live process hosts the hub of this socket. Only that process may serve on it."""


class SocketFront:
    """Accepts connections for ``hub`` at ``path``. Only the owner may read and write the socket."""

    def __init__(self, hub_: hub.Hub, path: str) -> None:
        self._hub = hub_
        self._path = path
        self._lock_file = _lock(path)
        self._socket = _listen(path)
        self._thread = threading.Thread(target=self._accept, name=f"hub {path}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone would not
        self._thread.join()
        self._socket.close()
        self._lock_file.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return
            connection = Connection(accepted.detach())
            threading.Thread(target=self._serve, args=(connection,), name="hub client", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            request = json.loads(connection.recv_bytes())
            wants_reply = request.pop("wants_reply")
            reply_to = _Caller(connection) if wants_reply else None
            accepted = self._publish(hub.Delivery(**request, reply_to=reply_to), connection)
        except (EOFError, OSError, ValueError, TypeError, KeyError) as broken:
            LOG.warning("Ignoring a malformed request from a client of %s: %s", self._path, broken)
            connection.close()
            return
        if not wants_reply or not accepted:
            connection.close()

    def _publish(self, delivery: hub.Delivery, connection: Connection) -> bool:
        # The verdict is sent first: the reply of a quick server must not overtake it.
        with _Caller.verdict_first(delivery.reply_to):
            try:
                self._hub.publish(delivery)
                accepted = True
            except hub.Unroutable:
                accepted = False
            connection.send_bytes(json.dumps({"accepted": accepted}).encode())
        return accepted


class _Caller:
    """Sends heartbeats and the reply to the client on ``connection``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @staticmethod
    def verdict_first(caller: object) -> contextlib.AbstractContextManager:
        return caller._lock if isinstance(caller, _Caller) else contextlib.nullcontext()

    def send(self, frame: str, final: bool = False) -> None:
        with self._lock, contextlib.suppress(OSError):  # the caller may have given up
            self._connection.send_bytes(frame.encode())
            if final:
                self._connection.close()


class ClientCall:
    """One message to the hub behind ``path``, as a context manager.

    :raises OSError: no process hosts a hub there
    """

    def __init__(self, path: str) -> None:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.connect(path)
        except OSError:
            client.close()
            raise
        self._connection = Connection(client.detach())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._connection.close()

    def publish(self, delivery: hub.Delivery, wants_reply: bool) -> None:
        """:raises hub.Unroutable:
        :raises OSError: the hub died (or EOFError)
        """
        request = {
            "exchange": delivery.exchange,
            "key": delivery.key,
            "body": delivery.body,
            "mandatory": delivery.mandatory,
            "monitor_s": delivery.monitor_s,
            "wants_reply": wants_reply,
        }
        self._connection.send_bytes(json.dumps(request).encode())
        if not json.loads(self._connection.recv_bytes())["accepted"]:
            raise hub.Unroutable(delivery.key)

    def receive(self, timeout_s: float | None) -> str | None:
        """Return the next frame; None after ``timeout_s`` without one."""
        if not self._connection.poll(timeout_s):
            return None
        return self._connection.recv_bytes().decode()


def _lock(path: str) -> IO[str]:
    """Lock the name for this process. A lock ends with its process, so a killed hub leaves nothing to clean up."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    lock_file = open(path + ".lock", "w")  # noqa: SIM115 held until close()
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock_file.close()
        raise AddressInUse(f"another process serves on {path}") from None
    return lock_file


def _listen(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    os.chmod(path, 0o600)  # before listen(), so no client can have connected
    listening.listen(128)
    return listening
