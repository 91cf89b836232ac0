# SPDX-License-Identifier: Apache-2.0
"""What others may do to a project: every way in × every person × the objects of another project (docs/security.md).

``people`` are the persons and the holders of keys, ``objects`` what two projects have; ``requests`` says whose each
route is, with a body that its owner may send. ``world`` is the fleet: the real conductor, schedulers and HTTP application
over SQLite, in one thread (``inline`` is its transport), and ``ledger`` finds what a request has changed, and brings it
back. The tests generate their combinations from the routes and the contract, so a new one fails until a table says whose
it is.
"""
