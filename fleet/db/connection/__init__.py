# SPDX-License-Identifier: Apache-2.0
"""Connections to database servers: their arguments, and the properties that a server must have.

``options``, ``driver`` and ``tls`` make the arguments of a connection; ``silent_peer`` limits the waiting for a server
that does not answer; ``primary`` and ``demotion`` drop connections to a server that no longer takes writes;
``replication`` reads what a server has for standbys; ``limits``, ``loopback``, ``idle_ping`` and ``sqlite_pool`` are for
the pool.
"""
