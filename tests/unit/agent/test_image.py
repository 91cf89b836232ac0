# SPDX-License-Identifier: Apache-2.0
"""Bytes of images: from files and servers, bounded, compared with their checksum, and no others than their own."""

from __future__ import annotations

import hashlib
import http.server
import os
import pathlib
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_utils import units

from fleet import errors
from fleet.agent import image, time_limit
from fleet.objects import VolumeImage
from tests.unit.volume_agent.builders import options, stored, volume
from volume_agent.drivers.directory import DirectoryDriver

DATA = b"boot" + bytes(300_000) + b"loader"
SHA256 = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


def record(location: str, **given: Any) -> VolumeImage:
    return VolumeImage(**{"uuid": "i1", "name": "linux", "location": location, **given})


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "linux image.raw"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def server(source: pathlib.Path) -> Iterator[str]:
    """The URL of a server of one file, on loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/linux"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(DATA if found else b"")

        def log_message(self, *_arguments: Any) -> None: ...

    served = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


def test_an_image_is_read_from_a_file(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """By its path or a file URL. Zeros become holes."""
    made = tmp_path / "made"
    for location in (str(source), source.as_uri(), f"file://localhost{source.as_uri().removeprefix('file://')}"):
        image.write(record(location, checksum=SHA256), made, image.Room(units.Gi))
        assert DATA == made.read_bytes()
    assert made.stat().st_blocks * 512 < len(DATA)


def test_an_image_is_read_from_a_server(server: str, tmp_path: pathlib.Path) -> None:
    """An answer that is no success is an error, which another backend may not have. It names no password."""
    made = tmp_path / "made"
    image.write(record(f"{server}/linux", checksum=SHA256), made, image.Room(units.Gi))
    assert DATA == made.read_bytes()
    secret = server.replace("http://", "http://user:secret@")
    for location, said in ((f"{secret}/other", "404"), ("http://user:secret@127.0.0.1:1/", "ConnectionError")):
        with pytest.raises(OSError, match=f"^image linux cannot be downloaded: {said}$"):
            image.write(record(location), made, image.Room(units.Gi))


def test_a_download_does_not_take_for_ever(server: str, tmp_path: pathlib.Path) -> None:
    """A server that sends a little now and then is given up."""
    moments = iter([0.0, 10.0, 4000.0])
    with pytest.raises(TimeoutError, match="takes more than 3600 s"):
        image.write(record(f"{server}/linux"), tmp_path / "made", image.Room(units.Gi), lambda: next(moments))


@pytest.fixture
def dripping() -> Iterator[tuple[str, threading.Event]]:
    """The URL of a server that sends one byte of many, and ends when the event is set."""
    over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(DATA)))
            self.end_headers()
            self.wfile.write(DATA[:1])
            over.wait(60)

        def log_message(self, *_arguments: Any) -> None: ...

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}/linux", over
    over.set()
    served.shutdown()
    served.server_close()


def test_a_download_that_drips_is_given_up(dripping: tuple[str, threading.Event], tmp_path: pathlib.Path) -> None:
    """At each byte that comes: a whole block would never be there."""
    url, over = dripping
    moments = iter([0.0, 4000.0])
    with pytest.raises(TimeoutError, match="takes more than 3600 s"):
        image.write(record(url), tmp_path / "made", image.Room(units.Gi), lambda: next(moments))
    assert not over.is_set()


def test_a_download_that_breaks_off(dripping: tuple[str, threading.Event], tmp_path: pathlib.Path) -> None:
    url, over = dripping
    over.set()
    with pytest.raises(OSError, match="^image linux cannot be downloaded: ProtocolError$"):
        image.write(record(url), tmp_path / "made", image.Room(units.Gi))


def test_abandoned_work_reads_no_further(
    source: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "is_wanted", lambda: False)
    with pytest.raises(time_limit.Overrun):
        image.write(record(str(source)), tmp_path / "made", image.Room(units.Gi))


HEADER = struct.pack(">4sIQIIQ", b"QFI\xfb", 3, 0, 0, 16, units.Gi)
WRONG: list[tuple[str, bytes, dict[str, Any], str]] = [
    ("other bytes than the record says", b"evil", {"checksum": SHA256}, "has the checksum sha256:"),
    ("more bytes than the volume has", bytes(units.Mi + 1), {}, "more than the 1048576 bytes"),
    ("another format", b"raw", {"disk_format": "qcow2"}, "not in the format qcow2"),
    ("a larger disk", HEADER.ljust(104, b"\0"), {"disk_format": "qcow2"}, "needs 1073741824 bytes"),
    (
        "a backing file",
        struct.pack(">4sIQIIQ", b"QFI\xfb", 2, 1024, 11, 16, 1).ljust(104, b"\0"),
        {"disk_format": "qcow2"},
        "needs another file",
    ),
    (
        "a file with its data",
        struct.pack(">4sIQIIQ40xQ", b"QFI\xfb", 3, 0, 0, 16, 1, 1 << 2).ljust(104, b"\0"),
        {"disk_format": "qcow2"},
        "needs another file",
    ),
]


@pytest.mark.parametrize(("_what", "data", "given", "said"), WRONG, ids=[case[0] for case in WRONG])
def test_an_image_that_no_backend_can_use(
    tmp_path: pathlib.Path, _what: str, data: bytes, given: dict[str, Any], said: str
) -> None:
    """It is refused, and the message says why."""
    path = tmp_path / "image"
    path.write_bytes(data)
    with pytest.raises(errors.ImageUnacceptable, match=said):
        image.write(record(str(path), **given), tmp_path / "made", image.Room(units.Mi))


def test_what_is_no_regular_file_is_not_read(tmp_path: pathlib.Path) -> None:
    """A pipe would block for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is no regular file"):
        image.write(record(str(tmp_path / "pipe")), tmp_path / "made", image.Room(units.Mi))


def directory(path: pathlib.Path, **given: Any) -> DirectoryDriver:
    driver = DirectoryDriver(options(directory_pools={"p1": str(path / "p1")}, **given))
    driver.init_backend()
    return driver


def test_a_volume_begins_with_an_image(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """It has the size that was asked for, and occupies little more than the image. A thick one occupies it all."""
    driver, made = directory(tmp_path), volume(size_gb=1, image=record(str(source), checksum=SHA256))
    for _ in range(2):
        driver.create(made)
    path = tmp_path / "p1" / f"volume-{made.uuid}"
    with open(path, "rb") as file:
        assert DATA == file.read(len(DATA))
    assert (units.Gi, True) == (path.stat().st_size, path.stat().st_blocks * 512 < units.Mi)


def test_a_thick_volume_of_an_image_occupies_its_space(
    source: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the image has holes."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fallocate", lambda _file, offset, size: asked.append((offset, size)))
    directory(tmp_path).create(volume(size_gb=1, thick=True, image=record(str(source))))
    assert (0, units.Gi) == asked[-1]


def test_an_image_that_is_refused_leaves_nothing(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Neither a volume nor a part of one."""
    wrong = record(str(source), checksum="sha256:" + 64 * "0")
    with pytest.raises(errors.ImageUnacceptable):
        directory(tmp_path).create(volume(size_gb=1, image=wrong))
    assert [] == list((tmp_path / "p1").iterdir())


needs_qemu_img = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")


@needs_qemu_img
@pytest.mark.parametrize(("of", "to"), [("qcow2", "raw"), ("raw", "qcow2"), ("qcow2", "qcow2")])
def test_an_image_of_another_format_is_converted(
    source: pathlib.Path, tmp_path: pathlib.Path, of: str, to: str
) -> None:
    """To the format of the backend, with the size of the volume."""
    path = tmp_path / f"image.{of}"
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", of, source, path], check=True)
    driver, made = directory(tmp_path, volume_format=to), volume(size_gb=1, image=record(str(path), disk_format=of))
    driver.create(made)
    assert {made.uuid: ("p1", 1)} == stored(driver)
    (found,) = (tmp_path / "p1").iterdir()
    if to == "qcow2":
        subprocess.run(["qemu-img", "convert", "-O", "raw", found, tmp_path / "back"], check=True)
        found = tmp_path / "back"
    with open(found, "rb") as file:
        assert DATA == file.read(len(DATA))


def test_without_its_program_an_image_is_not_converted(
    source: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volume then goes to another backend."""
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    with pytest.raises(OSError, match="needs qemu-img, which is not installed"):
        directory(tmp_path).create(volume(image=record(str(source), disk_format="qcow2")))
