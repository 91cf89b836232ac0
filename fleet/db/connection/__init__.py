# SPDX-License-Identifier: Apache-2.0
"""How a server is reached, and what a connection to it must be.

``options``, ``driver`` and ``tls`` make the arguments of a connection; ``silent_peer`` limits the waiting for a server
that does not answer; ``primary`` and ``demotion`` drop connections to a server that no longer takes writes;
``replication`` reads what a server has for standbys; ``limits``, ``loopback``, ``idle_ping`` and ``sqlite_pool`` are for
the pool.
"""
