# SPDX-License-Identifier: Apache-2.0
"""An oslo.messaging transport without a broker, for the embedded trio, for tests and for simulation.

``local:///run/fleet.sock``: the process that serves on it hosts the *hub* and listens on that Unix socket; others (the
command line tools) connect to it, and may send but not serve. ``local://name`` never leaves the process.

Read in this order: ``hub`` (topics, queues and who waits on them), ``bridge`` (the socket in front of a hub),
``driver`` (what oslo.messaging sees).
"""

from fleet.rpc.local.driver import LocalDriver

__all__ = ["LocalDriver"]
