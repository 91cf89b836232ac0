# SPDX-License-Identifier: Apache-2.0
"""The option that chooses the driver for RabbitMQ."""

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
]
