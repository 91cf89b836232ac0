# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy between the daemons and a server, that can freeze, cut or slow down what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from fleet_trial.private_servers.process import free_ports

Upstream = Callable[[], Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
CHUNK = 65536


class Proxy:
    """Listens on ``port`` of the loopback; runs in a thread of its own. Its faults last until ``heal``."""

    def __init__(self, upstream: Upstream) -> None:
        # The port stays with this process, also while the proxy does not listen and refuses connections.
        (self.port,) = free_ports(1)
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._flowing: asyncio.Event
        self._delay_s = 0.0
        self._server: asyncio.Server
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def freeze(self) -> None:
        """Half open: connections stay, nothing comes through, neither bytes nor their end."""
        self._call(self._flowing.clear)

    def cut(self, refuse: bool = False) -> None:
        """All connections end at once; new ones are refused if ``refuse``, as by a machine on which no server runs."""

        def act() -> None:
            if refuse:
                self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()

        self._call(act)

    def inject(self, piece: bytes) -> None:
        """Send bytes to every client that the server has not sent, between two pieces of what it sends."""

        def act() -> None:
            for writer in list(self._clients):
                writer.write(piece)

        self._call(act)

    def slow(self, delay_s: float) -> None:
        """Each piece takes so much longer."""
        self._delay_s = delay_s

    def heal(self) -> None:
        """Everything flows again, connections that were frozen too, as after a switch has come back."""

        def act() -> None:
            self._delay_s = 0.0
            self._flowing.set()

        self._call(act)
        if not self._server.is_serving():
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def _call(self, act: Callable[[], object]) -> None:
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        self._server.close()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            there_reader, there_writer = await self._upstream()
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(there_writer)
        self._clients.add(writer)
        await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))
        self._writers -= {writer, there_writer}
        self._clients.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while piece := await reader.read(CHUNK):
                await self._flowing.wait()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                writer.write(piece)
                await writer.drain()
            await self._flowing.wait()
        writer.close()


def to_port(port: int) -> Upstream:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: str) -> Upstream:
    return lambda: asyncio.open_unix_connection(path)
