# SPDX-License-Identifier: Apache-2.0
"""Drivers that serve requests for virtual machines.

``driver`` is the base; ``filter_scheduler``, ``caching_scheduler`` and ``chance`` are drivers, ``dict_driver`` runs
drivers in nova's form. ``driver_loading`` and ``loading`` make them of the configuration. ``host_manager`` with
``host_lists`` is the cache in nova's form. ``capacity_count`` counts how many more instances fit.
"""
