# SPDX-License-Identifier: Apache-2.0
"""The option that chooses the driver for RabbitMQ. :mod:`fleet.rpc.transport` reads it."""

from __future__ import annotations

from oslo_config import cfg

LEAN, STOCK = "lean", "stock"
OPTIONS = [
    cfg.StrOpt(
        "rabbit_driver",
        default=LEAN,
        choices=[
            (LEAN, "the driver of this project, which needs fewer steps for a message"),
            (STOCK, "the driver of oslo.messaging"),
        ],
        help="The driver for RabbitMQ. Both speak the same wire format, so services and clients may differ. Change it "
        "only to compare the two, or to rule out one of them as the cause of a problem.",
    ),
    cfg.IntOpt(
        "rabbit_return_interval",
        default=60,
        min=0,
        help="Seconds after which a connection that lost its node of a RabbitMQ cluster looks whether this node is back, "
        "and moves there, so that processes share the nodes evenly again; at random between a half and one and a half of "
        "it. Requests under way are not interrupted. With 0, connections stay where they are until they are lost. "
        "Increase it if a node that returns takes long to serve well; it matters only where transport_url names several "
        "nodes and rabbit_driver is lean.",
    ),
]
