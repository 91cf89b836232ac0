# SPDX-License-Identifier: Apache-2.0
"""A conductor with storage backends and hosts, for functional tests of volumes that guests have."""

from __future__ import annotations

from typing import Any

from tests.worlds.volumes import Volumes


class Guests(Volumes):
    """A conductor with two backends, and hosts whose agents are played by the test."""

    def guest(self, host: str = "h1", name: str = "web", **request: Any) -> str:
        if self.operator.list_hosts() == [] or host not in {each["host"] for each in self.operator.list_hosts()}:
            self.add_host(host)
        uuid = self.place(host, name=name, **request)
        self.claim(uuid, host)
        self.finish(uuid, host)
        return uuid

    def wants(self, uuid: str, host: str = "h1") -> list[tuple[str, str, int]]:
        """What the host reads: volume, status and attempt of each attachment."""
        found = self.hosts.get_attachments(uuid, host)
        return [(each["volume_uuid"], each["status"], each["attempt"]) for each in found]

    def report(self, uuid: str, host: str = "h1", failure: str = "", **changes: Any) -> str | None:
        """The host does what the first attachment of the instance wants; its status then.

        :param changes: of the report
        """
        first = self.hosts.get_attachments(uuid, host)[0]
        said = {"status": first["status"], "attempt": first["attempt"], "attachment_uuid": first["uuid"], **changes}
        left = self.hosts.attachment_done(host=host, failure=failure, **said)
        return left and left["status"]

    def status(self, volume: str) -> str:
        return self.operator.show_volume(volume)["status"]

    def events(self, uuid: str) -> list[tuple[str, str]]:
        found = self.operator.show_instance(uuid)["events"]
        return [(each["event"], each["result"]) for each in found if each["event"].endswith("_volume")]

    def attached(self, volume: str, uuid: str) -> None:
        self.operator.attach_volume(uuid, volume)
        assert "attached" == self.report(uuid)
