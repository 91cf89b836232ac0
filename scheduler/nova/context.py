# SPDX-License-Identifier: Apache-2.0
"""The request context of nova's messages, without the token that it carries.

:mod:`scheduler.nova.service` deserializes messages by it.
"""

from __future__ import annotations

from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.rpc.serializer import ContextSerializer

#: Keys that are not kept: nothing here calls a service in a user's name.
_SECRET = ("auth_token", "service_catalog", "service_token")


class NovaContextSerializer(ContextSerializer):
    """Drops the user's token and the list of services before anything can log them."""

    def deserialize_context(self, ctxt: JSONObject) -> RequestContext:
        return super().deserialize_context({key: value for key, value in ctxt.items() if key not in _SECRET})
