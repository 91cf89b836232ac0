# SPDX-License-Identifier: Apache-2.0
"""Calls about hosts, services, aggregates, the use of the fleet, and its health.

:mod:`fleet.rpc.clients.operator.calls` inherits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from fleet.json_codec import JSONMapping
from fleet.objects.answers.balances import BalanceRound, BalanceView
from fleet.objects.answers.hosts import (
    ActView,
    AggregateView,
    Findings,
    HostView,
    ListedService,
    ServiceView,
    ShownHost,
    UseView,
)
from fleet.objects.answers.maintenances import MaintenanceView, ShownMaintenance
from fleet.objects.answers.recoveries import RecoveriesView, RecoveryView, ShownRecovery, Switch
from fleet.objects.answers.tolerances import ToleranceView
from fleet.rpc.clients.operator.caller import Caller


class Binary(TypedDict, total=False):
    """The daemon, if it is not the compute agent."""

    binary: str


class Disabling(TypedDict, total=False):
    """The daemon, and why it takes no builds."""

    binary: str
    reason: str | None


class Period(TypedDict, total=False):
    """The hours before now that are wanted, and the number of times in them."""

    hours: int
    points: int


class LeftOut(TypedDict, total=False):
    """The hosts that are in no wave, each with the reason."""

    left_out: dict[str, str]


class Named(TypedDict, total=False):
    """The hosts that are wanted."""

    names: list[str]


class Newest(TypedDict, total=False):
    """The most entries that are wanted, counted from the newest."""

    limit: int


class HostPart(TypedDict, total=False):
    """The most nodes of hosts that are wanted, and the uuid of the node after which they begin."""

    limit: int
    marker: str


class ServicePart(TypedDict, total=False):
    """The most services that are wanted, and the binary and the host of the service after which they begin."""

    limit: int
    marker: Sequence[str]


class HostCalls(Caller):
    def list_acts(self, **newest: Unpack[Newest]) -> list[ActView]:
        """Return the acts of administrators, the newest first."""
        return self.call("list_acts", **newest)

    def list_hosts(self, **part: Unpack[HostPart]) -> list[HostView]:
        """Return the nodes of hosts. ``fleet.client.pages`` returns those of a large fleet."""
        return self.call("list_hosts", **part)

    def host_table(self, columns: Sequence[str], **part: Unpack[HostPart]) -> list[list[Any]]:
        """Return these fields of hosts, as one list for each. ``fleet.client.pages`` returns those of a large fleet."""
        answer: list[list[object]] = self.call("host_table", columns=list(columns), **part)
        return answer

    def list_zones(self) -> dict[str, bool]:
        """Return the zones that have hosts, each with whether one of its hosts is up and enabled."""
        return self.call("list_zones")

    def list_host_states(self, **of: Unpack[Named]) -> dict[str, list[str]]:
        """Return state and status of hosts by name: of all that are down or disabled, or of those that are named."""
        return self.call("list_host_states", **of)

    def show_host(self, name: str) -> ShownHost:
        return self.call("show_host", name=name)

    def set_host_labels(self, host: str, labels: Mapping[str, str | None]) -> dict[str, str]:
        """Return the labels that count afterwards."""
        return self.call("set_host_labels", host=host, labels=dict(labels))

    def delete_host(self, host: str) -> None:
        self.call("delete_host", host=host)

    def list_tolerances(self) -> list[ToleranceView]:
        """Return the promises to survive a loss."""
        return self.call("list_tolerances")

    def set_tolerance(self, tolerance: JSONMapping) -> ToleranceView:
        return self.call("set_tolerance", tolerance=dict(tolerance))

    def unset_tolerance(self, kind: str, name: str) -> None:
        self.call("unset_tolerance", kind=kind, name=name)

    def list_recoveries(self, **newest: Unpack[Newest]) -> RecoveriesView:
        """Recoveries of hosts: those that have not ended first, then the newest."""
        return self.call("list_recoveries", **newest)

    def show_recovery(self, name: str) -> ShownRecovery:
        return self.call("show_recovery", name=name)

    def pause_recovery(self, paused: bool, name: str | None = None) -> Switch:
        """Pause or resume one recovery, or all."""
        return self.call("pause_recovery", paused=paused, name=name)

    def start_recovery(self, host: str) -> RecoveryView:
        return self.call("start_recovery", host=host)

    def create_maintenance(self, maintenance: Mapping[str, object], **more: Unpack[LeftOut]) -> ShownMaintenance:
        """:param maintenance: a Maintenance"""
        return self.call("create_maintenance", maintenance=dict(maintenance), **more)

    def list_maintenances(self, **newest: Unpack[Newest]) -> list[MaintenanceView]:
        return self.call("list_maintenances", **newest)

    def show_maintenance(self, name: str) -> ShownMaintenance:
        return self.call("show_maintenance", name=name)

    def pause_maintenance(self, name: str, paused: bool) -> ShownMaintenance:
        return self.call("pause_maintenance", name=name, paused=paused)

    def cancel_maintenance(self, name: str) -> ShownMaintenance:
        return self.call("cancel_maintenance", name=name)

    def skip_maintenance_host(self, name: str, host: str) -> ShownMaintenance:
        return self.call("skip_maintenance_host", name=name, host=host)

    def list_balances(self) -> list[BalanceView]:
        return self.call("list_balances")

    def list_balance_rounds(self, aggregate: str | None = None, **newest: Unpack[Newest]) -> list[BalanceRound]:
        """Return the rounds of balancing, the newest first."""
        return self.call("list_balance_rounds", aggregate=aggregate, **newest)

    def suggest_balance(self, aggregate: str) -> BalanceRound:
        return self.call("suggest_balance", aggregate=aggregate)

    def run_balance(self, aggregate: str, uuid: str | None = None) -> BalanceRound:
        """:param uuid: the suggestion must be this one"""
        return self.call("run_balance", aggregate=aggregate, uuid=uuid)

    def pause_balance(self, aggregate: str, paused: bool) -> BalanceView:
        return self.call("pause_balance", aggregate=aggregate, paused=paused)

    def list_services(self, **part: Unpack[ServicePart]) -> list[ListedService]:
        """Return services. ``fleet.client.pages`` returns those of a large fleet."""
        return self.call("list_services", **part)

    def update_service(self, host: str, disabled: bool, **more: Unpack[Disabling]) -> ServiceView:
        return self.call("update_service", host=host, disabled=disabled, **more)

    def force_down(self, host: str, forced: bool, **of: Unpack[Binary]) -> None:
        self.call("force_down", host=host, forced=forced, **of)

    def delete_service(self, host: str, **of: Unpack[Binary]) -> None:
        self.call("delete_service", host=host, **of)

    def list_aggregates(self) -> list[AggregateView]:
        return self.call("list_aggregates")

    def show_aggregate(self, name: str) -> AggregateView:
        return self.call("show_aggregate", name=name)

    def create_aggregate(self, name: str, metadata: Mapping[str, str]) -> AggregateView:
        return self.call("create_aggregate", name=name, metadata=dict(metadata))

    def rename_aggregate(self, name: str, new_name: str) -> AggregateView:
        return self.call("rename_aggregate", name=name, new_name=new_name)

    def add_aggregate_host(self, name: str, host: str) -> AggregateView:
        return self.call("add_aggregate_host", name=name, host=host)

    def remove_aggregate_host(self, name: str, host: str) -> AggregateView:
        return self.call("remove_aggregate_host", name=name, host=host)

    def set_aggregate_metadata(self, name: str, metadata: Mapping[str, str | None]) -> AggregateView:
        return self.call("set_aggregate_metadata", name=name, metadata=dict(metadata))

    def delete_aggregate(self, name: str) -> None:
        self.call("delete_aggregate", name=name)

    def use_over_time(self, **period: Unpack[Period]) -> UseView:
        return self.call("use_over_time", **period)

    def examine(self) -> Findings:
        return self.call("examine")
