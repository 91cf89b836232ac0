# SPDX-License-Identifier: Apache-2.0
"""An oslo.messaging driver on py-amqp that speaks oslo.messaging's wire format, with fewer steps for a message.

Read in this order: ``driver`` (the story of a call), ``settings`` and ``topology`` (options, exchanges and queues), ``wire``
(message bodies), ``frames`` (how they go over a connection), ``link`` (a connection that threads share), ``outgoing`` with
``publisher``, ``publication`` and ``reading`` (publishing, confirmations, and the replies to calls), ``incoming``
(consuming, and replies), ``shared_queues`` (queues of many hosts on one connection).
"""
