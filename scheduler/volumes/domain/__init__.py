# SPDX-License-Identifier: Apache-2.0
"""Pools, volumes and requests as the engine reads them.

Read ``domain`` first: it is the value that names everything else. ``capabilities`` and ``columns`` read pools, ``space``
computes what they have left, ``request`` and ``tracked_volume`` read volumes, ``pool_state`` and ``one_pool`` show a pool in
cinder's form. ``equation`` is the language in which pools judge for themselves, ``pool_equations`` computes it for pools.
"""
