# SPDX-License-Identifier: Apache-2.0
"""``fleet-api``: the HTTP door. It speaks the part of OpenStack's compute API that a placement service can answer.

It has no database and keeps nothing: it asks the conductor by RPC. Any number of processes may run.

Read in this order:

- ``conf`` (options), ``main`` (the daemon), ``serving`` (the sockets and threads) and ``application`` (the routes)
- ``requests``: what every request passes, from the bodies that clients send to the answers and errors
- ``access``: who may do what
- the resources: ``servers``, ``compute`` (what servers are made of and run on) and ``block_storage`` (volumes)
- ``own``: ours beside nova's (``/fleet/v1``), with its files for browsers in ``static/``
"""

import fleet  # noqa: F401 (chooses native threads before anything here imports oslo.messaging)
