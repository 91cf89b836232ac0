# SPDX-License-Identifier: Apache-2.0
"""How the services talk: remote calls and one-way messages over oslo.messaging. ``docs/wire-contract.md`` is the contract.

Read in this order: ``versions`` and ``pins`` (which API versions a message may have), ``transport`` and ``serializer`` (the
connection, and the request context on it), ``clients`` (one class for each topic), ``server`` (endpoints, and the servers
that call them), ``deferred`` (work that waits until the caller has its answer), ``batch_answers`` (answers to several calls
in one message), ``ledger_queue`` (the conductors' second queue), ``call_monitor`` (heartbeats for callers that wait),
``backoff`` (pauses between tries).

``trust`` decides which messages are accepted. ``rabbit`` is what is special to RabbitMQ. ``local`` is the transport without
a broker.
"""
