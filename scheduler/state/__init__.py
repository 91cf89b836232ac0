# SPDX-License-Identifier: Apache-2.0
"""The cache of host states: what the change feed and casts show, less what is booked.

Read ``booking`` (picks that the database does not show yet), then ``host_cache`` with its parts ``services``,
``memberships`` (aggregates) and ``shares`` (the hosts that each scheduler prefers), ``hints`` (casts), and
``host_manager`` (the lock, and the reading of the feed). ``liveness`` tells which services of the cache are up.
"""
