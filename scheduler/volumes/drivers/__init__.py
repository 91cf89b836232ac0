# SPDX-License-Identifier: Apache-2.0
"""Drivers that serve requests for volumes.

``driver`` is the base; ``filter_scheduler``, ``chance`` and ``simple`` are drivers (the latter two over ``unweighed``).
``loading`` makes them of the configuration, ``host_manager`` is the cache.
"""
