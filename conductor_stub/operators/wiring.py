# SPDX-License-Identifier: Apache-2.0
"""Wires what operators see and change. :mod:`conductor_stub.wiring` calls it."""

from __future__ import annotations

from conductor_stub.builds.unshelving import Unshelving
from conductor_stub.builds.wiring import Builds
from conductor_stub.operators.acts import ActManager
from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.catalog import CatalogManager
from conductor_stub.operators.console import ConsoleManager
from conductor_stub.operators.decisions import DecisionManager
from conductor_stub.operators.details import DetailsManager
from conductor_stub.operators.diagnosis import Diagnosis
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.operators.events import EventsManager
from conductor_stub.operators.flavors import FlavorManager
from conductor_stub.operators.groups import GroupManager
from conductor_stub.operators.hosts import HostsManager
from conductor_stub.operators.key_pairs import KeyPairManager
from conductor_stub.operators.locks import LockManager
from conductor_stub.operators.manager import OperatorManager
from conductor_stub.operators.networks import NetworkManager
from conductor_stub.operators.quotas import QuotaManager
from conductor_stub.operators.reset import ResetManager
from conductor_stub.operators.search import SearchManager
from conductor_stub.operators.tolerances import ToleranceManager
from conductor_stub.operators.unshelving import UnshelveManager
from conductor_stub.operators.use import UseManager
from conductor_stub.parts import Common, Part, Run
from conductor_stub.power.wiring import Power
from fleet.db.operations import recoveries
from fleet.db.upkeep import acts

#: Seconds between two removals of old acts.
_OLD_ACTS_EVERY_S = 3600


def wire(common: Common, builds: Builds, power: Power) -> Part:
    """:param builds: make the scheduler request of a build that is not made, and build what is unshelved
    :param power: starts what is unshelved where it is
    """
    database, clock, quota = common.database, common.clock, common.limits.default_quota
    zone = common.settings.default_zone
    dry_run = DryRun(database, builds.intake, builds.placement)
    diagnosis = Diagnosis(database, common.settings.host, common.fresh)
    return Part(
        endpoints=[
            OperatorManager(database, dry_run, diagnosis, common.limits.service_down_time_s, clock),
            HostsManager(database, common.limits.service_down_time_s, clock, zone),
            CatalogManager(database, Announcements(database, common.clients.scheduler), clock),
            FlavorManager(database, clock),
            GroupManager(database, quota, clock),
            QuotaManager(database, quota, clock),
            KeyPairManager(database, clock),
            NetworkManager(database, clock),
            ConsoleManager(database, common.clients.compute),
            DecisionManager(database, common.clients.scheduler, common.limits.service_down_time_s, clock),
            DetailsManager(database, clock),
            LockManager(database, clock),
            ResetManager(database, common.limits, clock),
            EventsManager(database, clock),
            ActManager(database),
            UseManager(database, clock),
            SearchManager(database),
            ToleranceManager(database, clock, common.settings.tolerance, zone),
            UnshelveManager(database, power.intake, Unshelving(database, builds.placement, zone)),
        ],
        runs=[
            Run("old acts", lambda: database.write(acts.remove_old, clock()), _OLD_ACTS_EVERY_S),
            Run("old recoveries", lambda: database.write(recoveries.remove_old, clock()), _OLD_ACTS_EVERY_S),
        ],
    )
