# SPDX-License-Identifier: Apache-2.0
"""A libvirt driver of its own on the private libvirtd; ``restart`` is a new agent on the same machine."""

from __future__ import annotations

import hashlib
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from compute_agent.drivers.libvirt import LibvirtDriver
from fleet import errors
from fleet.context import RequestContext
from fleet.objects import Image, ImageRecord, Instance
from tests.unit.compute_agent import builders

HOST = "machine"
IMAGE = "5b2d9d2e-6d3f-4a55-9d0e-2f1a4b3c2d1e"
#: A guest boots in five seconds on a quiet machine, and emulation is slow on a busy one.
BOOT_S = 240.0
_LINE = re.compile(r"^GUEST (\S+) ?(.*?)\r?$", re.MULTILINE)


def eventually(condition: Callable[[], Any], limit_s: float = BOOT_S) -> Any:
    """Return what ``condition`` returns once that is true. :raises AssertionError:"""
    end = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end, f"not true within {limit_s} s"
        time.sleep(0.1)
    return found


def lines(console: pathlib.Path) -> Iterator[tuple[str, str]]:
    """What the guest has printed: pairs of a word and the rest of the line."""
    text = console.read_text(errors="replace") if console.exists() else ""
    return ((each.group(1), each.group(2)) for each in _LINE.finditer(text))


class Machine:
    def __init__(self, root: pathlib.Path, uri: str, image: pathlib.Path, host: str = HOST, **options: Any) -> None:
        self.root = root
        self.host = host
        self.image = ImageRecord(
            "tiny", str(image), IMAGE, f"sha256:{hashlib.sha256(image.read_bytes()).hexdigest()}", "raw"
        )
        self.records: dict[str, ImageRecord] = {IMAGE: self.image}
        self.conf = builders.a_conf(compute_driver="libvirt", instances_path=str(root))
        for name, value in {"connection_uri": uri, "virt_type": "qemu", **options}.items():
            self.conf.set_override(name, value, group="libvirt")
        self.driver = self.restart()

    def restart(self) -> LibvirtDriver:
        self.driver = LibvirtDriver(self.conf)
        self.driver.init_host(self.host)
        self.driver.use_images(self._find_image)
        return self.driver

    def _find_image(self, _context: RequestContext, image_id: str) -> ImageRecord:
        try:
            return self.records[image_id]
        except KeyError:
            raise errors.NotFound(kind="Image", name=image_id) from None

    def spawn(self, image: str = IMAGE, **values: Any) -> Instance:
        flavor = builders.a_flavor(**{"memory_mb": 128, "root_gb": 1, **values.pop("flavor", {})})
        instance = builders.an_instance(node=self.host, flavor=flavor, image=Image(id=image), **values)
        self.driver.spawn(builders.a_context(), instance, instance.image)
        return instance

    def destroy(self, uuid: str) -> None:
        self.driver.destroy(builders.a_context(), uuid)

    def directory(self, uuid: str) -> pathlib.Path:
        return self.driver._disks.of(uuid)

    def console(self, uuid: str) -> list[tuple[str, str]]:
        return list(lines(self.directory(uuid) / "console.log"))

    def up(self, instance: Instance, times: int = 1) -> dict[str, str]:
        """Wait until the guest has booted; return what it has printed, the last line of each kind."""
        eventually(lambda: [word for word, _ in self.console(instance.uuid)].count("up") >= times)
        return dict(self.console(instance.uuid))

    def state(self, instance: Instance) -> int:
        return self.driver.get_info(instance.uuid).state

    def bases(self) -> list[str]:
        return sorted(path.name for path in (self.root / "libvirt" / "bases").iterdir())

    def guests(self) -> list[str]:
        return sorted(path.name for path in (self.root / "libvirt" / "guests").iterdir())

    def clear(self) -> None:
        for uuid, usage in self.driver.get_per_instance_usage().items():
            if "attempt" in usage:
                self.destroy(uuid)
        self.driver.cleanup_host(self.host)
