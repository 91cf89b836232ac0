# SPDX-License-Identifier: Apache-2.0
"""How the services talk: ``docs/wire-contract.md`` on one page, ``clients`` to call it, ``server`` to serve it.

``transport`` opens the connection; ``serializer`` carries the request context; ``local`` is the brokerless transport of
the embedded trio.
"""
