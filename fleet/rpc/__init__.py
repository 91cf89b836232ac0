# SPDX-License-Identifier: Apache-2.0
"""Remote calls and one-way messages between the services, over oslo.messaging. ``docs/wire-contract.md`` is the
contract.

Read in this order: ``versions`` and ``pins`` (which API versions a message may have), ``transport`` and
``serializer`` (the connection, and the request context on it), ``clients`` (one class for each topic), ``server`` and
``endpoint`` (servers, and the methods that they call), ``dispatching`` (finds the method that a message names),
``deferred`` (work that waits until the caller has its answer), ``batch_answers`` (answers to several calls in one
message), ``ledger_queue`` (the conductors' second queue), ``call_monitor`` (heartbeats for callers that wait),
``backoff`` (pauses between tries), ``threads`` (what if the process can have no more of them), ``oslo_drivers`` (what
oslo.messaging keeps private for its drivers).

``trust`` decides which messages are accepted. ``rabbit`` has what is special to RabbitMQ. ``local`` is the transport
without a broker.
"""
