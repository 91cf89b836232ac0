# SPDX-License-Identifier: Apache-2.0
"""The decisions that a driver keeps, if ``[decisions] file`` is set.

:mod:`scheduler.compute.drivers.filter_scheduler` adds to them after each answer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from fleet.clock import epoch_s, utcnow
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec
from fleet.rpc import deferred
from fleet.telemetry import decisions_conf
from scheduler.engine.decision import Decision
from scheduler.why.decisions import record
from scheduler.why.decisions.store import DecisionStore


class KeptDecisions:
    """:param scheduler: name of this machine"""

    def __init__(self, store: DecisionStore, scheduler: str) -> None:
        self._store = store
        self._scheduler = scheduler

    def keep(self, context: RequestContext | None, request: RequestSpec, made: Decision) -> None:
        """Keep a decision, after the answer."""
        request_id = getattr(context, "request_id", None)
        if request_id:
            make = functools.partial(record.of, request, made, epoch_s(utcnow()), self._scheduler)
            deferred.after_reply(functools.partial(self._store.keep, request_id, make))

    def of(self, request_id: str) -> Sequence[JSONObject]:
        """:raises errors.ConfigError: the file cannot be read"""
        try:
            return self._store.of(request_id)
        except OSError as unreadable:
            raise errors.ConfigError(option="[decisions] file", reason=f"cannot be read: {unreadable}") from None


def from_conf(conf: cfg.ConfigOpts) -> KeptDecisions | None:
    if decisions_conf.GROUP not in conf or not conf.decisions.file:
        return None
    options = conf.decisions
    store = DecisionStore(options.file, options.most, options.keep_days, lambda: epoch_s(utcnow()))
    return KeptDecisions(store, conf.host)
