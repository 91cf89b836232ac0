# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: the only package that imports amqp or kombu.

``conf`` chooses between two drivers: ``lean``, which is this project's own, and oslo.messaging's as it is. ``defaults`` sets
options of both. ``rpc_server`` is oslo.messaging's server with other ways to receive: ``leader_followers`` (the threads of a
server) and ``host_queues`` (the queues of many hosts on one connection). ``message_body`` decodes the body of a message.

``broker_refusals`` has the errors of a broker that refuses. For operators: ``broker`` (whether it accepts
connections, and the length of its queues) and ``permissions`` (of the services' users).
"""
