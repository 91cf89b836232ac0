# SPDX-License-Identifier: Apache-2.0
"""This project's defaults of RabbitMQ's options.

An operator's values override them. Called by modules of :mod:`fleet.rpc` and :mod:`fleet.rpc.rabbit.lean`.
"""

from __future__ import annotations

import os
import ssl
import types
from collections.abc import Mapping

from oslo_config import cfg
from oslo_messaging import opts as oslo_opts

GROUP = "oslo_messaging_rabbit"
#: Messages that the broker may send to one consumer before they are handled. oslo.messaging's default is unlimited:
#: one process would receive a whole backlog, and the others nothing.
PREFETCH = 8
#: Seconds after which the broker deletes the fanout and reply queues of a process that was killed. oslo.messaging's
#: default is half an hour, in which they fill.
UNUSED_QUEUES_S = 120
#: Seconds of silence after which a connection is lost. oslo.messaging's default of 60 s is the outage that a node of the
#: broker causes which hangs, or vanishes without a word. RabbitMQ's manual recommends 5 to 20 s.
SILENCE_S = 10
#: Seconds that a reply of the stock driver waits for the caller's queue, which blocks a worker; its default is 60.
ANSWER_PATIENCE_S = 1


_DEFAULTS: Mapping[str, object] = types.MappingProxyType(
    {
        "kombu_missing_consumer_retry_timeout": ANSWER_PATIENCE_S,
        "heartbeat_timeout_threshold": SILENCE_S,
        "rabbit_transient_queues_ttl": UNUSED_QUEUES_S,
        "rabbit_qos_prefetch_count": PREFETCH,
        # Brokers since RabbitMQ 4.3 refuse queues that are transient and shared.
        "amqp_durable_queues": True,
    }
)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """Return oslo.messaging's options, for the sample configuration: those of RabbitMQ have these defaults."""
    found: list[tuple[object, list[cfg.Opt]]] = oslo_opts.list_opts()
    for group, options in found:
        if _name(group) == GROUP:
            cfg.set_defaults(options, **_DEFAULTS)
    return found


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.messaging's RabbitMQ driver, with these defaults."""
    register_group(conf, GROUP)
    for name, value in _DEFAULTS.items():
        conf.set_default(name, value, group=GROUP)
    # Without a file of authorities, the stock driver would accept any certificate.
    conf.set_default("ssl_ca_file", system_authorities(), group=GROUP)


def register_group(conf: cfg.ConfigOpts, name: str) -> None:
    """Register the options of one of oslo.messaging's groups."""
    for group, options in oslo_opts.list_opts():
        if _name(group) == name:
            conf.register_opts(options, group=name)


def _name(group: object) -> object:
    return getattr(group, "name", group)


def system_authorities() -> str | None:
    """Return the file of the certificate authorities that this machine trusts."""
    paths = ssl.get_default_verify_paths()
    known = [each for each in (paths.cafile, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem") if each]
    return next((each for each in known if os.path.exists(each)), None)
