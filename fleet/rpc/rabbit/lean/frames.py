# SPDX-License-Identifier: Apache-2.0
"""py-amqp's connection, with one system call for all frames that have come, and one encoding for a publication.

py-amqp reads each frame with three calls, and takes and builds the arguments of each method by a table of its types. For the
three methods of every message (publish, deliver, acknowledge) this module does that itself; all others are py-amqp's. That
halves the processor time of an empty call. (Frames and methods: AMQP 0-9-1, sections 2.3 and 4.2; acknowledgements of
publications: RabbitMQ's extension.)
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Callable

import amqp
from amqp import transport

_CHUNK = 1 << 16
_FRAME = struct.Struct(">BHI")
_METHOD, _HEADER, _BODY, _END = 1, 2, 3, b"\xce"
#: Class and method: ``basic.publish`` with a reserved number, ``basic.deliver``, ``basic.ack``.
_PUBLISH, _DELIVER, _ACK = struct.pack(">HHH", 60, 40, 0), struct.pack(">HH", 60, 60), struct.pack(">HH", 60, 80)
#: A delivery tag, and a flag: whether all before it are meant, or that the message was delivered before.
_TAG = struct.Struct(">QB")
#: Class, weight, size of the body, and which properties follow.
_CONTENT = struct.Struct(">HHQH")
_CONTENT_TYPE, _ENCODING, _DELIVERY_MODE, _EXPIRATION, _MESSAGE_ID = 0x8000, 0x4000, 0x1000, 0x0100, 0x0080
_MANDATORY = b"\1"
#: Bytes of a frame that are not its payload.
_OVERHEAD = 8


class _ReadsAhead:
    """Mixed into a transport of py-amqp."""

    sock: socket.socket
    connected: bool
    #: What has been read, and where the next frame begins in it.
    _ahead, _at = b"", 0
    #: Bytes of the largest payload that the broker may send: it announces no more than py-amqp asks for.
    _most = 131_072

    def read_frame(self, *_unpack: object) -> tuple[int, int, bytes]:
        """:raises OSError: the connection is lost, or a time limit of the socket is over"""
        while (frame := self.next_frame()) is None:
            self.receive()
        return frame

    def next_frame(self) -> tuple[int, int, bytes] | None:
        """Return the next frame that has come whole: type, channel, payload. :raises amqp.UnexpectedFrame:"""
        if not self._is_whole():
            return None
        ahead, begin = self._ahead, self._at + _FRAME.size
        kind, channel, size = _FRAME.unpack_from(ahead, self._at)
        end = begin + size
        if ahead[end] != _END[0]:
            raise amqp.UnexpectedFrame(f"a frame ends with {ahead[end]:#04x}")
        self._at = end + 1
        return kind, channel, ahead[begin:end]

    def receive(self) -> None:
        """Read the bytes that have arrived; wait if there are none. :raises OSError: the connection is lost"""
        self._append(self.sock.recv(_CHUNK))

    def receive_now(self) -> bool:
        """Read the bytes that have arrived, and return False if there are none. :raises OSError: the connection is lost"""
        raise NotImplementedError

    def hides(self) -> bool:
        """Return True if something has come that the socket does not show any more: records of TLS are read whole."""
        return False

    def _append(self, got: bytes) -> None:
        if not got:
            self.connected = False
            raise OSError("the broker has closed the connection")
        self._ahead, self._at = self._ahead[self._at :] + got if self._at < len(self._ahead) else got, 0

    def _is_whole(self) -> bool:
        left = len(self._ahead) - self._at
        if left < _OVERHEAD:
            return False
        size: int = _FRAME.unpack_from(self._ahead, self._at)[2]
        if size > self._most:  # the rest would be waited for, for ever
            raise amqp.UnexpectedFrame(f"a frame has {size} bytes")
        return left >= _OVERHEAD + size


def has_arrived(number: int) -> bool:
    """Return True if a socket, by its number, has something to read. select() would refuse numbers above 1023."""
    looking = select.poll()
    looking.register(number, select.POLLIN)
    return bool(looking.poll(0))


class _TCP(_ReadsAhead, transport.TCPTransport):
    def receive_now(self) -> bool:
        try:
            got = self.sock.recv(_CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        self._append(got)
        return True


class _TLS(_ReadsAhead, transport.SSLTransport):
    sock: ssl.SSLSocket

    def receive_now(self) -> bool:
        """Receive without waiting, except for the rest of a record whose first bytes have arrived."""
        if not self.sock.pending() and not has_arrived(self.sock.fileno()):
            return False
        self.receive()
        return True

    def hides(self) -> bool:
        return self.sock.pending() > 0


class Connection(amqp.Connection):
    """An AMQP connection that reads ahead."""

    #: The broker accepts no messages now (``connection.blocked``).
    is_blocked = False
    #: Called when it accepts messages again, by the thread that reads.
    on_free: Callable[[], object] = staticmethod(lambda: None)

    def Transport(
        self,
        host: str,
        connect_timeout: float,
        ssl: object = False,
        read_timeout: float | None = None,
        write_timeout: float | None = None,
        socket_settings: object = None,
        **options: object,
    ) -> object:
        """Open the transport; py-amqp calls this."""
        options |= {"read_timeout": read_timeout, "write_timeout": write_timeout, "socket_settings": socket_settings}
        return (_TLS if ssl else _TCP)(host, connect_timeout=connect_timeout, ssl=ssl, **options)


class Dispatcher:
    """Gives frames to the callbacks of a connection's channels, in the place of py-amqp's own handler."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._others: Callable[[tuple[int, int, bytes]], bool] = connection.on_inbound_frame
        connection.on_inbound_frame = self.dispatch
        #: By channel: the callback of the consumer, and the message whose frames have not all come.
        self._coming: dict[int, tuple[Callable[[amqp.Message], object], amqp.Message]] = {}

    def dispatch(self, frame: tuple[int, int, bytes]) -> bool:
        """Return True when a method is complete. :raises amqp.AMQPError: the broker closes the connection or a channel"""
        kind, number, payload = frame
        if kind == _METHOD:
            method = payload[:4]
            if method == _DELIVER and self._begin(number, payload):
                self._connection.bytes_recv += 1  # for the heartbeat
                return False
            if method == _ACK and number in self._connection.channels:
                self._connection.bytes_recv += 1
                tag, multiple = _TAG.unpack_from(payload, 4)
                for each in self._connection.channels[number].events["basic_ack"]:
                    each(tag, bool(multiple))
                return True
        elif number in self._coming:
            self._connection.bytes_recv += 1
            return self._go_on(number, kind, payload)
        return self._others(frame)

    def _go_on(self, number: int, kind: int, payload: bytes) -> bool:
        callback, message = self._coming[number]
        if kind == _HEADER:
            message.inbound_header(payload)
        else:
            message.inbound_body(payload)
        if message.ready:
            del self._coming[number]
            callback(message)
        return bool(message.ready)

    def _begin(self, number: int, payload: bytes) -> bool:
        """Return False if the consumer has left, whose messages py-amqp sends back."""
        channel = self._connection.channels.get(number)
        size = payload[4]
        callback = channel and channel.callbacks.get(payload[5 : 5 + size].decode())
        if not callback:
            return False
        message = amqp.Message(channel=channel)
        tag, redelivered = _TAG.unpack_from(payload, 5 + size)
        at = 5 + size + _TAG.size
        exchange = payload[at + 1 : at + 1 + payload[at]].decode(errors="replace")
        message.delivery_info = {"delivery_tag": tag, "redelivered": bool(redelivered), "exchange": exchange}
        self._coming[number] = callback, message
        return True


def _number(channel: amqp.Channel) -> int:
    """:raises amqp.ConnectionError: the channel was closed"""
    number = channel.channel_id
    if not isinstance(number, int):
        raise amqp.ConnectionError("the channel is closed")
    return number


def acknowledgement(channel: amqp.Channel, delivery_tag: int) -> bytes:
    """Return the frame that acknowledges one message. :raises amqp.ConnectionError: the channel was closed"""
    return b"".join((_FRAME.pack(_METHOD, _number(channel), 13), _ACK, _TAG.pack(delivery_tag, 0), _END))


def publication(
    channel: amqp.Channel,
    exchange: str,
    key: str,
    body: bytes,
    *,
    mandatory: bool,
    persistent: bool,
    message_id: str,
    expiration_ms: int | None,
    frame_max: int,
) -> bytes:
    """Return the frames of a JSON message.

    :raises ValueError: a name is longer than 255 bytes
    :raises amqp.ConnectionError: the channel was closed
    """
    number = _number(channel)
    method = b"".join((_PUBLISH, _short(exchange), _short(key), _MANDATORY if mandatory else b"\0"))
    flags = _CONTENT_TYPE | _ENCODING | _DELIVERY_MODE | _MESSAGE_ID | (0 if expiration_ms is None else _EXPIRATION)
    header = b"".join(
        (
            _CONTENT.pack(60, 0, len(body), flags),
            b"\x10application/json\x05utf-8",
            b"\2" if persistent else b"\1",
            b"" if expiration_ms is None else _short(str(expiration_ms)),
            _short(message_id),
        )
    )
    most = frame_max - _OVERHEAD
    parts = [body] if len(body) <= most else [body[at : at + most] for at in range(0, len(body), most)]
    payloads = [(_METHOD, method), (_HEADER, header), *((_BODY, part) for part in parts if part)]
    return b"".join(
        piece for kind, payload in payloads for piece in (_FRAME.pack(kind, number, len(payload)), payload, _END)
    )


def _short(text: str) -> bytes:
    encoded = text.encode()
    return bytes((len(encoded),)) + encoded
