# SPDX-License-Identifier: Apache-2.0
"""Volumes as a second domain of the engine.

Vocabulary: a *backend* is a storage driver on a machine, ``machine@backend``; a *pool* is a part of a backend that volumes
are placed on, ``machine@backend#pool``. A pool is what a host is for virtual machines. Sizes are GiB.

Read ``domain`` first, then ``filters`` and ``weights`` (the plugins), ``drivers``, ``manager`` (the RPC surface),
``service`` (the wiring) and ``planning`` (what-if). ``conf`` has the options.
"""
