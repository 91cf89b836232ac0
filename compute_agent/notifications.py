# SPDX-License-Identifier: Apache-2.0
"""Notifications ``compute.instance.create.*``: nova's events with the part of nova's payload that exists here."""

from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_log import log as logging

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import Instance

LOG = logging.getLogger(__name__)

MESSAGE_LENGTH = 255


class Notifications:
    """Emits for all hosts of the process. Nobody's build fails because nobody could be told."""

    def __init__(self, notifier: oslo_messaging.Notifier | None = None) -> None:
        self._notifier = notifier

    def create(
        self, context: RequestContext, suffix: str, host: str, instance: Instance, fault: Exception | None = None
    ) -> None:
        """``compute.instance.create.<suffix>``; level ERROR for the suffix ``error``, else INFO."""
        if self._notifier is None:
            return
        notifier = self._notifier.prepare(publisher_id=f"compute.{host}")
        emit = notifier.error if suffix == "error" else notifier.info
        try:
            emit(context, f"compute.instance.create.{suffix}", payload(instance, host, fault))
        except Exception:
            LOG.warning("Notification compute.instance.create.%s was not sent", suffix, exc_info=True)


def payload(instance: Instance, host: str, fault: Exception | None = None) -> dict[str, Any]:
    flavor = instance.flavor
    values: dict[str, Any] = {
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "instance_id": instance.uuid,
        "display_name": instance.name,
        "reservation_id": instance.reservation_id,
        "instance_type": flavor.name,
        "instance_flavor_id": flavor.flavorid,
        "memory_mb": flavor.memory_mb,
        "disk_gb": flavor.claimed_disk_gb,
        "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "host": host,
        "node": instance.node,
        "availability_zone": instance.availability_zone,
        "state": instance.vm_state,
        "state_description": instance.task_state or "",
        "image_meta": dict(instance.image.properties),
        "metadata": dict(instance.metadata),
    }
    if fault is None:
        return {**values, "message": "Success"} if instance.node else values
    message = fault.message if isinstance(fault, errors.FleetError) else str(fault) or type(fault).__name__
    code = getattr(fault, "code", errors.FleetError.code)
    return {**values, "exception": type(fault).__name__, "message": message[:MESSAGE_LENGTH], "code": code}
