# SPDX-License-Identifier: Apache-2.0
"""A fake hypervisor that writes a journal of its calls, and fails, hangs or delays them as a file orders."""

from __future__ import annotations

import fnmatch
import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.fake import FakeDriver
from fleet import errors
from fleet.context import RequestContext
from fleet.objects import Attachment, Image, Instance

#: How often a held spawn reads its orders again, in seconds.
LOOK_S = 0.05


class UnrulyDriver(FakeDriver):
    """``instances_path/unruly.json``: a list of ``host`` (pattern), ``do`` and ``seconds``; the first that fits counts.

    ``do``: ``fail``, ``abort`` (no other host may be tried), ``hang`` (for ``seconds``, then as always), ``hold`` (a
    spawn waits until the order is gone), ``hang-destroy``. ``instances_path/journal/HOST`` has a line for each spawn that
    begins, and each destroy that is over: what, instance, attempt, and the migration whose attempt it is, or ``-``.
    """

    def init_host(self, host: str) -> None:
        super().init_host(host)
        self._name = host
        self._orders = pathlib.Path(self.conf.instances_path) / "unruly.json"
        self._journal = pathlib.Path(self.conf.instances_path) / "journal" / host
        self._journal.parent.mkdir(parents=True, exist_ok=True)

    def spawn(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        attempt = context.attempt if context.migration else instance.attempt
        self._note("spawn", instance.uuid, attempt, context.migration)
        order = self._order()
        while order.get("do") == "hold":
            time.sleep(LOOK_S)
            order = self._order()
        if order.get("do") == "hang":
            time.sleep(order["seconds"])
        if order.get("do") == "fail":
            raise SpawnFailed(f"The hypervisor of {self._name} is told to fail")
        if order.get("do") == "abort":
            raise errors.BuildAbort(instance_uuid=instance.uuid, reason="the hypervisor is told to abort")
        super().spawn(context, instance, image_meta, volumes)

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        order = self._order()
        if order.get("do") == "hang-destroy":
            time.sleep(order["seconds"])
        super().destroy(context, instance_uuid)
        self._note("destroy", instance_uuid, context.attempt, context.migration)

    def _order(self) -> dict[str, Any]:
        try:
            orders = json.loads(self._orders.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return next((order for order in orders if fnmatch.fnmatchcase(self._name, order["host"])), {})

    def _note(self, what: str, uuid: str, attempt: int | None, migration: str | None) -> None:
        """One write of one line: the journal outlives a kill -9."""
        file = os.open(self._journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, f"{what} {uuid} {attempt or 0} {migration or '-'}\n".encode())
        finally:
            os.close(file)
