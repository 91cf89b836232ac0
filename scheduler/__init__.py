# SPDX-License-Identifier: Apache-2.0
"""The scheduler: chooses hosts with filters and weighers over host states that it caches.

Vocabulary: a *candidate* is a host (a compute node, strictly) that a request may go to; a *filter* lets candidates pass
or drops them; a *weigher* gives each candidate that passed a number; a *pick* is the host chosen for one instance; a
*booking* is a pick that the database does not show yet; a *column* is one number of all hosts.

Rooms, from the ground up:

- ``engine``: decides over columns; it knows no virtual machine
- ``loading`` (classes by their names) and ``why`` (refusals, near misses, explanations, the log of decisions)
- ``state``: the cache of host states that follows the database, the bookings, and the decision with the configured plugins
- ``planning``: a copy of the fleet on which a plan may decide
- ``compute`` and ``volumes``: the domains, virtual machines and storage pools. Both have the same rooms: ``domain``
  (columns, requests, consumption), ``filters``, ``weights``, ``drivers`` and ``planning``; ``manager`` is the RPC surface,
  ``service`` the wiring
- ``nova``: what nova's conductor asks for, and is answered
- ``peers``: the other schedulers, and the heartbeat that they see

At the top: ``main`` (the daemon), ``conf`` (options) and ``checks``.

Read ``engine`` first, then ``compute``, ``state`` and ``compute/drivers/filter_scheduler``. ``filters``, ``weights``,
``filter_scheduler``, ``driver``, ``host_manager``, ``chance`` and ``caching_scheduler`` only name what is in
``compute``, for files of operators and plugins of others, which know these paths from nova. ``compat`` has what such files
import of nova and cinder themselves.
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
