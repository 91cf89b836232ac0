# SPDX-License-Identifier: Apache-2.0
"""The request that a step belongs to, where steps of several requests come in one message.

The managers that take messages with several steps call it for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.context import RequestContext
from fleet.objects import fields

_NAMES = ("request_id", "project_id", "user_id")


def on_behalf(context: RequestContext, data: Mapping[str, object], field: str, **about: Any) -> RequestContext:
    """Return the context of the step. :param about: for its log lines. :raises errors.InvalidInput: naming the field"""
    whose = {name: fields.parse(fields.Text | None, data.get(name), f"{field}.{name}") for name in _NAMES}  # type: ignore[arg-type]
    return context.about(**about).on_behalf(**whose)
