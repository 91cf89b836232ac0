# SPDX-License-Identifier: Apache-2.0
"""An oslo.messaging transport without a broker, for the embedded trio, tests and simulation.

The process that serves on ``local:///run/fleet.sock`` hosts the *hub* and listens on that Unix socket. Other
processes (the command line tools) connect to it; they may send but not serve. ``local://name`` works inside one
process only.

Read ``hub`` (topics, queues, and listeners that wait for messages), ``bridge`` (the socket in front of a hub), then
``driver`` (the oslo.messaging driver).
"""

from fleet.rpc.local.driver import LocalDriver

__all__ = ["LocalDriver"]
