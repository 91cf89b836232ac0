# SPDX-License-Identifier: Apache-2.0
"""Every other process of a run begins with the tests of daemons. They wait most of the time, while the others compute.

A process starts the daemons with its first such file and ends them with the last one in a row: so each does all of its own
together. The Makefile's ``--dist loadfile`` is what is refined here.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: Files that need daemons.
_WAITING = "tests/amqp/"


class Lanes(LoadFileScheduling):
    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = self.nodes.index(node) % 2 == 0
        first = next((file for file in self.workqueue if file.startswith(_WAITING) == waits), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None
