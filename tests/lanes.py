# SPDX-License-Identifier: Apache-2.0
"""Every other process of a run begins with the tests of daemons. They wait most of the time, while the others compute.

A process starts the daemons with its first such file and ends them with the last one in a row: so each does all of its own
together. The Makefile's ``--dist loadfile`` is what is refined here.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: Files that need daemons.
_WAITING = "tests/amqp/"


class Lanes(LoadFileScheduling):
    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(next_file(self.workqueue, waits=self.nodes.index(node) % 2 == 0), last=False)
        super()._assign_work_unit(node)


def next_file(files: Iterable[str], waits: bool) -> str:
    """Return the next file for a process: one of its kind as long as there is one. :param files: in their order"""
    left = list(files)
    return next((file for file in left if file.startswith(_WAITING) == waits), left[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None
