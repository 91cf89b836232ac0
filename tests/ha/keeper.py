# SPDX-License-Identifier: Apache-2.0
"""Tells the search for leftovers of tests which processes are nodes of a cluster: a test may start one anew."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from fleet_trial.private_servers.process import PrivateServer
from tests import leftovers


class _Nodes:
    def __init__(self, nodes: Sequence[PrivateServer]) -> None:
        self._nodes = nodes

    def keeps_thread(self, thread: threading.Thread) -> bool:
        return False

    def keeps_process(self, pid: int) -> bool:
        return pid in [node.pid for node in self._nodes if node.is_running]


@contextlib.contextmanager
def kept(nodes: Sequence[PrivateServer]) -> Iterator[None]:
    keeper = _Nodes(nodes)
    leftovers.KEEPERS.append(keeper)
    try:
        yield
    finally:
        leftovers.KEEPERS.remove(keeper)
