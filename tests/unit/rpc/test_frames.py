# SPDX-License-Identifier: Apache-2.0
"""What the lean driver reads of a connection that TLS protects."""

from __future__ import annotations

import contextlib
import socket

from fleet.rpc.rabbit.lean import frames
from tests.many_files import many_files  # noqa: F401  (a fixture)


class Decrypted(socket.socket):
    """A socket with the one more method that a socket of TLS has."""

    def pending(self) -> int:
        return 0


def test_a_process_with_many_open_files(many_files: None) -> None:  # noqa: F811
    """It reads a connection whose number is above those that select() knows."""
    ours, theirs = socket.socketpair()
    with theirs, contextlib.closing(Decrypted(fileno=ours.detach())) as ours_:
        transport = object.__new__(frames._TLS)
        transport.sock = ours_
        assert not transport.receive_now()
        theirs.sendall(frames._FRAME.pack(frames._METHOD, 0, 0) + frames._END)
        assert transport.receive_now()
        assert (frames._METHOD, 0, b"") == transport.next_frame()
