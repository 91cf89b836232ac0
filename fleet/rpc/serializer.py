# SPDX-License-Identifier: Apache-2.0
"""Carries the request context across the wire; values are JSON already."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from fleet import context as fleet_context


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """A missing or foreign context becomes a fresh one, so that every handler has a request id to log."""

    def serialize_context(self, ctxt: fleet_context.RequestContext) -> dict[str, Any]:
        return ctxt.to_dict()

    def deserialize_context(self, ctxt: dict[str, Any]) -> fleet_context.RequestContext:
        try:
            return fleet_context.RequestContext.from_dict(ctxt)
        except (TypeError, AttributeError):
            return fleet_context.new_context()
