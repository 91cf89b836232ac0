# SPDX-License-Identifier: Apache-2.0
"""Starts a thread that the process can do without for a while: its limit of threads must not end the caller's work.

Called by :mod:`fleet.rpc.call_monitor` and the lean driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def started(run: Callable[[], object], name: str, otherwise: str) -> threading.Thread | None:
    """Start a daemon thread. Return None if the process can have no more threads now.

    :param otherwise: what that means, for the log
    """
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as failure:
        LOG.warning("%s: %s", otherwise, failure)
        return None
    return thread
