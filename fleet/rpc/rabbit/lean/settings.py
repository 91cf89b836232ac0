# SPDX-License-Identifier: Apache-2.0
"""The options of ``[oslo_messaging_rabbit]`` and the brokers of ``transport_url``, parsed once.

:mod:`fleet.rpc.rabbit.lean.driver` hands them to the modules beside it.
"""

from __future__ import annotations

import dataclasses
import ssl
from typing import Any

import oslo_messaging
from oslo_config import cfg

from fleet.json_codec import JSONMapping, JSONObject
from fleet.rpc import oslo_drivers
from fleet.rpc.rabbit.defaults import GROUP

_PORT = 5672


@dataclasses.dataclass(frozen=True)
class Broker:
    """One node of the broker. ``tls`` are py-amqp's arguments, or None."""

    hostname: str
    port: int
    username: str
    password: str
    tls: JSONMapping | None

    @property
    def address(self) -> str:
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options that the driver reads; queries of ``transport_url`` override them. Times are seconds.

    :param durable: of exchanges; queues always are
    :param persistent: True if messages survive a restart of the broker
    """

    brokers: tuple[Broker, ...]
    virtual_host: str
    heartbeat_s: int
    heartbeat_rate: int
    prefetch: int
    durable: bool
    persistent: bool
    auto_delete: bool
    durable_transient: bool
    queue_arguments: JSONMapping
    unused_queues_s: int
    mandatory_replies: bool
    return_interval_s: int

    @classmethod
    def parse(cls, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL) -> Settings:
        rabbit = oslo_drivers.ConfigOptsProxy(conf, url, GROUP)[GROUP]
        hosts = url.hosts or [oslo_messaging.TransportHost(hostname="localhost", username="guest", password="guest")]
        arguments: JSONObject = {"x-ha-policy": "all"} if rabbit.rabbit_ha_queues else {}
        if rabbit.rabbit_quorum_queue:
            limits = {
                "x-delivery-limit": rabbit.rabbit_quorum_delivery_limit,
                "x-max-in-memory-length": rabbit.rabbit_quorum_max_memory_length,
                "x-max-in-memory-bytes": rabbit.rabbit_quorum_max_memory_bytes,
            }
            arguments |= {"x-queue-type": "quorum"} | {name: value for name, value in limits.items() if value}
        return cls(
            brokers=tuple(_broker(host, rabbit) for host in hosts),
            virtual_host=url.virtual_host or "/",
            heartbeat_s=rabbit.heartbeat_timeout_threshold,
            heartbeat_rate=max(1, rabbit.heartbeat_rate),
            prefetch=rabbit.rabbit_qos_prefetch_count,
            durable=rabbit.amqp_durable_queues or rabbit.rabbit_quorum_queue,
            # Messages are hints to rows. They survive the broker only where an operator has asked for it.
            persistent=rabbit.rabbit_quorum_queue
            or (rabbit.amqp_durable_queues and _is_set(conf, "amqp_durable_queues")),
            auto_delete=rabbit.amqp_auto_delete,
            durable_transient=rabbit.rabbit_transient_quorum_queue,
            queue_arguments=arguments,
            unused_queues_s=rabbit.rabbit_transient_queues_ttl,
            mandatory_replies=rabbit.direct_mandatory_flag,
            return_interval_s=conf.rabbit_return_interval,
        )


def _is_set(conf: cfg.ConfigOpts, name: str) -> bool:
    """Return True if the configuration sets an option, and it is not a default."""
    found = conf.get_location(name, GROUP)
    return found is not None and found.location.is_user_controlled


def _broker(host: Any, rabbit: Any) -> Broker:
    tls = None
    if rabbit.ssl:
        tls = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host.hostname}
        files = {"ca_certs": rabbit.ssl_ca_file, "keyfile": rabbit.ssl_key_file, "certfile": rabbit.ssl_cert_file}
        tls |= {name: value for name, value in files.items() if value}
    return Broker(host.hostname, host.port or _PORT, host.username or "", host.password or "", tls)
