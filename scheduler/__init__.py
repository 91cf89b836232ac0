# SPDX-License-Identifier: Apache-2.0
"""The scheduler: chooses hosts with filters and weighers over host states that it caches.

Vocabulary: a *candidate* is a host (a compute node, strictly) that a request may go to; a *filter* lets candidates pass
or drops them; a *weigher* gives each candidate that passed a number; a *pick* is the host chosen for one instance; a
*booking* is a pick that the database does not show yet; a *column* is one number of all hosts.

Rooms, from the ground up:

- ``engine``: decides over columns; it knows no virtual machine
- ``compute``: virtual machines as a domain of the engine, and nova's form of a host
- ``state``: the cache of host states that follows the database, and the bookings
- ``why``: refusals, near misses, explanations, the log of decisions
- ``filters`` and ``weights``: the plugins for virtual machines
- ``volumes``: storage pools as a domain of the engine, with filters and weighers of their own
- ``planning``: capacity, and what-if over a copy of the fleet
- ``nova``: what nova's conductor asks for, and is answered

At the top: ``main`` (the wiring), ``conf`` (options), ``checks``, ``manager`` (the RPC surface), ``registration``
(heartbeats) and ``neighbours`` (the other schedulers); ``decider`` (decides with the configured plugins); ``driver`` with
the drivers ``filter_scheduler``, ``caching_scheduler`` and ``chance``; ``driver_loading``, ``loading``, ``named_classes``
and ``scheduler_options`` (from the configuration to objects); ``host_manager``, ``host_lists`` and ``dict_driver`` (what
plugins and drivers in nova's form import).

Read ``engine`` first, then ``compute``, ``state`` and ``filter_scheduler``.
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
