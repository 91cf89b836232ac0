# SPDX-License-Identifier: Apache-2.0
"""The options of ``[nova]`` that only the scheduler reads; :mod:`fleet.rpc.nova_broker` has the others.

:mod:`scheduler.main` registers them.
"""

from __future__ import annotations

from oslo_config import cfg

from fleet.rpc.nova_broker import GROUP
from scheduler.nova import notification_options, nova_options


def _novas(name: str) -> list[cfg.DeprecatedOpt]:
    """The same option in nova.conf, which may be copied."""
    return [cfg.DeprecatedOpt(name, group="scheduler")]


CLAIM, OFF = "claim", "off"

OPTIONS = [
    cfg.StrOpt(
        "api_connection",
        secret=True,
        help="Database nova_api, as [api_database] connection in nova.conf. A role that may only read is "
        "enough: docs/nova.md has its grants.",
    ),
    cfg.StrOpt(
        "cell_connection",
        secret=True,
        help="URL for the databases of all cells, in which {hostname}, {port}, {path}, {scheme} and {query} stand for the "
        "parts of the URL in the cell's mapping, such as postgresql+psycopg2://READER:PASSWORD@{hostname}/{path}. Use it "
        "for a role that may only read. Empty: the URL of the mapping, with nova's own role.",
    ),
    cfg.StrOpt(
        "placement",
        default=CLAIM,
        choices=[
            (CLAIM, "claim the resources of an instance in placement before the answer, as nova-scheduler does"),
            (OFF, "claim nothing. Only for trials: nothing then keeps two schedulers from choosing the same room"),
        ],
        help="What happens in placement. Related: section [placement], which is as in nova.conf.",
    ),
    cfg.StrOpt(
        "placement_connection",
        secret=True,
        help="Database of placement, as [placement_database] connection in placement.conf. A role that may only read is "
        "enough: docs/nova.md has its grants. Capacity, allocation ratios, reserved amounts and traits are then those of "
        "placement. Empty: capacity is that of the columns of compute_nodes, and what an operator has set in placement "
        "shows only in refused claims.",
    ),
    cfg.StrOpt(
        "service_connection",
        secret=True,
        help="Database that [database] connection of nova-scheduler's nova.conf names, with a role that may read, insert "
        "and update its table services. The scheduler then has a row in nova's list of services, as nova-scheduler under "
        "the name in [DEFAULT] host, and renews it each report_interval. With the name of the nova-scheduler before it, "
        "that row stays up. Nothing else is written. Empty: nova's list does not show this scheduler.",
    ),
    cfg.IntOpt(
        "max_attempts",
        min=1,
        help="[scheduler] max_attempts of nova.conf. An answer has at most one alternate less than that. Empty: "
        "scheduler_max_attempts (3), of which that is an alias.",
    ),
    cfg.FloatOpt(
        "cross_cell_move_weight_multiplier",
        deprecated_opts=[cfg.DeprecatedOpt("cross_cell_move_weight_multiplier", group="filter_scheduler")],
        default=1000000.0,
        help="[filter_scheduler] cross_cell_move_weight_multiplier of nova.conf: how much a move prefers the cell that the "
        "server is in, where nova's policy allows other cells. A negative number prefers other cells. Aggregate metadata of "
        "the same name overrides it.",
    ),
    cfg.IntOpt(
        "max_placement_results",
        deprecated_opts=_novas("max_placement_results"),
        default=1000,
        min=1,
        help="[scheduler] max_placement_results of nova.conf: most allocation candidates that placement is asked for, for "
        "requests that need them. All hosts are considered for other requests.",
    ),
    cfg.BoolOpt(
        "limit_tenants_to_placement_aggregate",
        deprecated_opts=_novas("limit_tenants_to_placement_aggregate"),
        default=False,
        help="[scheduler] limit_tenants_to_placement_aggregate of nova.conf: servers of a project go to hosts in the "
        "aggregates whose metadata filter_tenant_id* is the project, if there are any.",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        deprecated_opts=_novas("placement_aggregate_required_for_tenants"),
        default=False,
        help="[scheduler] placement_aggregate_required_for_tenants of nova.conf: projects without such an aggregate are "
        "refused. Related: limit_tenants_to_placement_aggregate.",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        deprecated_opts=_novas("enable_isolated_aggregate_filtering"),
        default=False,
        help="[scheduler] enable_isolated_aggregate_filtering of nova.conf: an aggregate with metadata trait:NAME=required "
        "takes only servers whose flavor or image requires the trait.",
    ),
    cfg.BoolOpt(
        "query_placement_for_image_type_support",
        deprecated_opts=_novas("query_placement_for_image_type_support"),
        default=False,
        help="[scheduler] query_placement_for_image_type_support of nova.conf: hosts must have the trait of the image's "
        "disk format, COMPUTE_IMAGE_TYPE_*.",
    ),
    cfg.BoolOpt(
        "image_metadata_prefilter",
        deprecated_opts=_novas("image_metadata_prefilter"),
        default=False,
        help="[scheduler] image_metadata_prefilter of nova.conf: hosts must have the traits that image properties such as "
        "hw_disk_bus and hw_vif_model name.",
    ),
    cfg.BoolOpt(
        "disable_fallback_pcpu_query",
        deprecated_opts=[cfg.DeprecatedOpt("disable_fallback_pcpu_query", group="workarounds")],
        default=False,
        help="[workarounds] disable_fallback_pcpu_query of nova.conf: servers with dedicated CPUs go to hosts that report "
        "PCPU only. Otherwise hosts that report VCPU alone are offered as well.",
    ),
    cfg.IntOpt(
        "shadow_patience",
        default=300,
        min=10,
        help="Seconds after which a server that is on no new host counts as refused by nova, for --shadow.",
    ),
    cfg.FloatOpt(
        "poll_period",
        default=1.0,
        min=0.1,
        help="Seconds between two readings of what has changed in nova's databases.",
    ),
    cfg.FloatOpt(
        "poll_overlap",
        default=15.0,
        min=1.0,
        help="Seconds that a reading goes back beyond the previous one. It must exceed the difference between the clocks of "
        "nova's services, and the length of their transactions. What is missed all the same, the full comparison finds "
        "(related: scheduler_compare_period).",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        help="reserved_host_memory_mb of nova.conf on the hosts. nova does not store it. A wrong value costs refused "
        "claims, or leaves room unused on hosts with a ram_allocation_ratio other than 1.",
    ),
    cfg.IntOpt("reserved_host_disk_mb", default=0, min=0, help="reserved_host_disk_mb of nova.conf on the hosts."),
    cfg.IntOpt("reserved_host_cpus", default=0, min=0, help="reserved_host_cpus of nova.conf on the hosts."),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTIONS, group=GROUP)
    conf.register_opts(notification_options.OPTIONS, group=notification_options.GROUP)
    nova_options.register_opts(conf)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options, for oslo-config-generator."""
    others = (notification_options.GROUP, notification_options.OPTIONS)
    return [(GROUP, OPTIONS), others, *nova_options.list_opts()]
