# SPDX-License-Identifier: Apache-2.0
"""How the services talk: ``docs/wire-contract.md`` on one page, ``clients`` to call it, ``server`` to serve it,
``host_queues`` to serve many hosts by one connection.

``transport`` opens the connection; ``serializer`` carries the request context; ``local`` is the brokerless transport of
the embedded trio.

``versions`` says what this release speaks, ``pins`` how new a message may be while older ones run; ``receipt`` refuses what
no endpoint should see, ``signing`` (with a ``keyring``) what is not of whom it says; ``permissions`` is what the broker lets
each service do.
"""
