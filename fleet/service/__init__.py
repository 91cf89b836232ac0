# SPDX-License-Identifier: Apache-2.0
"""Daemon life: start, serve, send heartbeats, reload, stop within a bound.

Read ``periodic`` (work that repeats), ``worker`` (one worker process, and the daemon that starts them), then
``probes`` (the round trips that show whether a daemon works).
"""

from fleet.service.periodic import Periodic, Runnable
from fleet.service.worker import Process, Worker, launch, new_incarnation, reread

__all__ = ["Periodic", "Process", "Runnable", "Worker", "launch", "new_incarnation", "reread"]
