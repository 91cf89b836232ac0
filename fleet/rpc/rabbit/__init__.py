# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: the only package that imports amqp, kombu or private parts of oslo.messaging.

``conf`` chooses between two drivers. ``lean`` is a driver of its own. ``driver`` and ``rpc_server`` extend
oslo.messaging's classes, with these parts. How a message is received: ``leader_followers`` (the threads of a server),
``blocking_consume`` (one thread waits for the broker), ``host_queues`` (the queues of many hosts on one connection),
``body_decoder`` (a message's body). How it is answered: ``replies``, ``late_replies``.

``broker_refusals`` has the errors of a broker that refuses. For operators: ``broker`` (whether it accepts
connections, and the length of its queues) and ``permissions`` (of the services' users).
"""
