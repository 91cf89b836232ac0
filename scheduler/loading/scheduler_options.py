# SPDX-License-Identifier: Apache-2.0
"""The operator's JSON file for filters of their own (``config_options``), read again when it changes.

:mod:`scheduler.state.decider` reads it before each decision.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping

from oslo_log import log as logging

from fleet.json_codec import JSONMapping

LOG = logging.getLogger(__name__)


class SchedulerOptions:
    """``path`` empty: there is no file. A file that cannot be read counts as empty, and is logged once for each change.

    ``_lock`` guards what was read last.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | str | None = None
        self._options: Mapping[str, object] = {}

    def get(self) -> JSONMapping:
        """The file's content as it is now."""
        if not self._path:
            return {}
        with self._lock:
            try:
                status = os.stat(self._path)
                seen: tuple[int, int] | str = (status.st_mtime_ns, status.st_size)
            except OSError as missing:
                seen = str(missing)
            if seen != self._seen:
                self._seen = seen
                self._options = self._read()
            return self._options

    def _read(self) -> Mapping[str, object]:
        try:
            with open(self._path, encoding="utf-8") as file:
                options = json.load(file)
        except (OSError, ValueError) as bad:
            LOG.error("Scheduler options %s cannot be read, and count as empty: %s", self._path, bad)
            return {}
        if not isinstance(options, dict):
            LOG.error("Scheduler options %s are no JSON object, and count as empty", self._path)
            return {}
        LOG.info("Scheduler options were read from %s", self._path)
        return options
