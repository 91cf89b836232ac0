# SPDX-License-Identifier: Apache-2.0
"""Volumes as a second domain of the engine.

Vocabulary: a *backend* is a storage driver on a machine, ``machine@backend``; a *pool* is a part of a backend that volumes
are placed on, ``machine@backend#pool``. A pool is what a host is for virtual machines. Sizes are GiB.

Read ``domain`` first: it is the value that names everything else. ``capabilities`` and ``columns`` read pools, ``space``
computes what they have left, ``request`` and ``tracked_volume`` read volumes, ``pool_state`` and ``one_pool`` show a pool in
cinder's form. ``equation`` is the language in which pools judge for themselves, ``pool_equations`` computes it for pools.
``filters`` and ``weights`` are the plugins.

Then what serves requests: ``host_manager`` (the cache), ``driver`` with ``filter_scheduler``, ``chance`` and ``simple`` (the
latter two over ``unweighed``), ``manager`` (the RPC surface), ``service`` (the wiring), ``loading`` and ``conf``. ``whatif``
decides on a copy of the pools.
"""
