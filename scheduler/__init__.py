# SPDX-License-Identifier: Apache-2.0
"""Decides: filters and weighers over what is known of the hosts.

Vocabulary: a *candidate* is a host (a compute node, strictly) that a request may go to; a *filter* says who is let
through; a *weigher* gives each survivor a number; a *pick* is the host chosen for one instance; a *booking* is a pick
that the database does not show yet; a *column* is one number of all hosts.

Read in this order: ``host_table`` (the columns), ``inventory``, ``candidates`` (what one request sees of it), ``filters``,
``weights``, ``claim_limits`` (what a claim must stay under), ``pipeline`` (the filters and weighers of one scheduler),
``decision`` (request and candidates in, picks and reasons out), ``booking``, ``host_manager`` (the cache and its lock),
``filter_scheduler`` (the default driver), ``manager`` (the RPC surface), ``main`` (the wiring). For plugins written nova's
way: ``named_classes``, ``loading`` and ``driver_loading`` (from the configuration to classes), ``dict_driver`` and
``host_lists`` (drivers over dicts and lists of host states).
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
