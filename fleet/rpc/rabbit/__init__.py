# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ: the only package that imports amqp, kombu or private parts of oslo.messaging.

How a message is received: ``leader_followers`` (the threads of a server), ``blocking_consume`` (one thread waits for the
broker), ``host_queues`` (the queues of many hosts on one connection), ``body_decoder`` (a message's body). How it is
answered: ``replies``, ``late_replies``. What happens while the broker refuses: ``broker_refusals``. For operators:
``broker`` (whether it accepts connections, and the length of its queues) and ``permissions`` (of the services' users).
"""
