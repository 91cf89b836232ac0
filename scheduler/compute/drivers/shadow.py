# SPDX-License-Identifier: Apache-2.0
"""Decides a share of the live requests by a second configuration, after the answer, and compares.

Nothing is booked, and no state is shared that a decision reads: answers are the same with and without a shadow. The
instance's own booking is lifted meanwhile, so the shadow sees the hosts as the decision saw them, but for what has
happened since the answer. Called by :mod:`scheduler.compute.drivers.filter_scheduler`.
"""

from __future__ import annotations

import functools
import pathlib
import random
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

import fleet.conf
from fleet import errors
from fleet.clock import epoch_s, utcnow
from fleet.objects import Holding, RequestSpec
from fleet.telemetry import rate_limited_log, shadow_conf
from scheduler.compute import conf as compute_conf
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decision import Decision
from scheduler.engine.pipeline import Pipeline
from scheduler.state.decider import Decider, on_change
from scheduler.why.shadow import outcome
from scheduler.why.shadow.ledger import ShadowLedger
from scheduler.why.shadow.verdict import Verdict

LOG = logging.getLogger(__name__)
_SAVE_EVERY_S = 10.0


class ShadowPipeline:
    """Several threads call it. :param share: of the requests, from 0 to 1"""

    def __init__(self, other: cfg.ConfigOpts, decider: Decider, share: float, ledger: ShadowLedger) -> None:
        """:param other: the configuration by which ``decider`` decides"""
        self._other = other
        self._decider = decider
        self._share = share
        self._ledger = ledger
        self._chance = random.Random()
        self._log = rate_limited_log.RateLimit()
        self._saved_at = -_SAVE_EVERY_S

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, host_manager: HostManager) -> ShadowPipeline | None:
        """Return the shadow of ``[shadow] config_file``; None without one.

        None as well, with an error in the log, if it cannot be loaded: what is only tried keeps no scheduler from its work.
        """
        if not _is_wanted(conf):
            return None
        try:
            other = _configuration(conf)
            decider = Decider(other, host_manager, functools.partial(_pipeline, conf, other, host_manager.domain))
        except errors.FleetError as wrong:
            LOG.error("No shadow decides: %s", wrong)
            return None
        ledger = ShadowLedger(pathlib.Path(conf.shadow.report_file), 0, lambda: epoch_s(utcnow()))
        made = cls(other, decider, conf.shadow.share, ledger)
        on_change(conf, made._reload)
        return made

    def _reload(self, _changed: object) -> None:
        """Read the files of both configurations again, as the scheduler has done with its own."""
        try:
            self._other.mutate_config_files()
        except (cfg.Error, OSError, ValueError) as wrong:
            LOG.error("The shadow keeps its former filters and weighers: %s", wrong)

    def takes(self, request: RequestSpec) -> bool:
        """Return True if the shadow is to decide this request. It takes requests for one instance only."""
        return request.num_instances == 1 and self._chance.random() < self._share

    def look(self, context: object, request: RequestSpec, made: Decision) -> None:
        """Compare with a decision that is made. Each error is logged, and harms no request."""
        try:
            (uuid,) = request.instance_uuids
            host = made.picks[0].key[0] if made.complete else None
            self._ledger.count(uuid, outcome.compare(self._verdict(context, request, host is not None), 0, host))
            if time.monotonic() - self._saved_at >= _SAVE_EVERY_S:
                self._saved_at = time.monotonic()
                self._ledger.save()
        except Exception as failure:
            if self._log.due(type(failure).__name__) is not None:
                LOG.exception("The shadow could not decide a request")

    def _verdict(self, context: Any, request: RequestSpec, is_booked: bool) -> Verdict:
        holding = Holding(request.instance_uuids[0]) if is_booked else request.holding
        flavor = request.flavor.name or "-"
        try:
            made, objections = self._decider.survey(context, request, holding)
        except errors.FleetError as refusal:
            return Verdict(flavor, refusal=refusal.reason_code.value)
        if made.complete:
            return Verdict(flavor, (made.picks[0].key[0],), objections.of)
        return Verdict(flavor, objection=objections.of, refusal=made.refusal.code.value if made.refusal else "")


def check(conf: cfg.ConfigOpts) -> None:
    """Load the second configuration, if there is one. :raises errors.ConfigError:"""
    if _is_wanted(conf):
        _pipeline(conf, _configuration(conf))


def _is_wanted(conf: cfg.ConfigOpts) -> bool:
    return shadow_conf.GROUP in conf and bool(conf.shadow.config_file)


def _pipeline(conf: cfg.ConfigOpts, other: cfg.ConfigOpts, *domain: Any) -> Pipeline:
    """Load the filters and weighers of the second configuration. :raises errors.ConfigError: naming its file"""
    try:
        return loading.load_pipeline(other, *domain)
    except errors.FleetError as wrong:
        reason = f"is {conf.shadow.config_file}: {wrong}"
        raise errors.ConfigError(option="[shadow] config_file", reason=reason) from None


def _configuration(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """Read the scheduler's files, and the shadow's after them. :raises errors.ConfigError:"""
    path = conf.shadow.config_file
    found = cfg.ConfigOpts()
    fleet.conf.register_opts(found)
    compute_conf.register_opts(found)
    try:
        found([], project="fleet", default_config_files=[*(conf.config_file or ()), path], default_config_dirs=[])
    except (cfg.Error, OSError) as wrong:
        raise errors.ConfigError(option="[shadow] config_file", reason=f"is {path}: {wrong}"[:300]) from None
    return found
