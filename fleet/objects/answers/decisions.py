# SPDX-License-Identifier: Apache-2.0
"""Answers about decisions that schedulers have kept (``[decisions]``).

:mod:`fleet.rpc.clients.operator.instances` parses the answers of conductors into them.
"""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from fleet.json_codec import JSONObject


class KeptPick(TypedDict):
    """The host that was chosen for an instance."""

    instance_uuid: str
    host: str
    nodename: str
    weight: float
    alternates: list[str]


class KeptDecision(TypedDict):
    """One decision. A project does not get ``scheduler`` and ``picks``.

    ``at`` are epoch seconds. ``details`` is the decision record of ``docs/explain.md``. ``error`` and ``message`` are
    those of a refusal.
    """

    at: float
    project_id: str | None
    flavor: str
    outcome: str
    instances: list[str]
    details: JSONObject
    scheduler: NotRequired[str]
    picks: NotRequired[list[KeptPick]]
    error: NotRequired[str]
    message: NotRequired[str]


class KeptDecisions(TypedDict):
    """The decisions of a request, the oldest first, and the schedulers that did not answer."""

    decisions: list[KeptDecision]
    silent: list[str]
