# SPDX-License-Identifier: Apache-2.0
"""The filters' options: nova's names of the Liberty era; its later names are accepted as aliases."""

from __future__ import annotations

from oslo_config import cfg

from scheduler.compute.virtual_machines import VIRTUAL_MACHINES
from scheduler.filters import guest_kinds


def _later(name: str) -> list[cfg.DeprecatedOpt]:
    """The name that nova gave to an option later."""
    return [cfg.DeprecatedOpt(name, group="filter_scheduler")]


FILTER_OPTS = [
    cfg.MultiStrOpt(
        "scheduler_available_filters",
        default=["scheduler.filters.all_filters"],
        deprecated_opts=_later("available_filters"),
        help="Dotted paths of filter classes, or of functions that return some, that scheduler_default_filters may "
        "name. May be given several times; a leading 'nova.' is dropped. To add filters of your own, repeat the "
        "default and name yours after it.",
    ),
    cfg.ListOpt(
        "scheduler_default_filters",
        default=list(VIRTUAL_MACHINES.default_filters),
        deprecated_opts=_later("enabled_filters"),
        help="Class names of the filters that a host must pass, in this order. An unknown name stops the service at "
        "start.",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Zone of the hosts that no aggregate puts in one.",
    ),
    cfg.IntOpt(
        "max_io_ops_per_host",
        default=8,
        min=0,
        deprecated_opts=_later("max_io_ops_per_host"),
        help="IoOpsFilter: a host passes with fewer builds and other heavy operations under way. For "
        "AggregateIoOpsFilter, aggregate metadata of the same name overrides it.",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=50,
        min=1,
        deprecated_opts=_later("max_instances_per_host"),
        help="NumInstancesFilter: a host passes with fewer instances. For AggregateNumInstancesFilter, aggregate "
        "metadata of the same name overrides it.",
    ),
    cfg.ListOpt(
        "isolated_images",
        default=[],
        deprecated_opts=_later("isolated_images"),
        help="IsolatedHostsFilter: ids of images whose instances go to isolated_hosts only.",
    ),
    cfg.ListOpt(
        "isolated_hosts",
        default=[],
        deprecated_opts=_later("isolated_hosts"),
        help="IsolatedHostsFilter: names of the hosts kept for isolated_images.",
    ),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        deprecated_opts=_later("restrict_isolated_hosts_to_isolated_images"),
        help="IsolatedHostsFilter: whether other images are kept off isolated_hosts. False lets them use the room that "
        "is left there.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        deprecated_opts=_later("aggregate_image_properties_isolation_namespace"),
        help="AggregateImagePropertiesIsolation: only metadata keys that begin with this and the separator are "
        "compared with the image's properties, by their whole name. Not set, all keys are. Set it where aggregates "
        "have metadata that happens to be named like an image property.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        default=".",
        deprecated_opts=_later("aggregate_image_properties_isolation_separator"),
        help="AggregateImagePropertiesIsolation: what stands between the namespace and the rest of a key.",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        choices=sorted(guest_kinds.ARCHITECTURES),
        deprecated_opts=_later("image_properties_default_architecture"),
        help="ImagePropertiesFilter: architecture of the images that name none. Set it where hosts differ in "
        "architecture; not set, an image that names none goes anywhere.",
    ),
]

TRUSTED_GROUP = "trusted_computing"
TRUSTED_OPTS = [
    cfg.HostAddressOpt(
        "attestation_server",
        help="TrustedFilter: address of the attestation service. Without it, the filter cannot be used.",
    ),
    cfg.StrOpt("attestation_port", default="8443", help="HTTPS port of the attestation service."),
    cfg.StrOpt(
        "attestation_api_url",
        default="/OpenAttestationWebServices/V1.0",
        help="Path of the attestation service's API; PollHosts below it is asked for all nodes together.",
    ),
    cfg.StrOpt(
        "attestation_server_ca_file",
        help="File of the certificates that may sign the service's. Not set, the system's store is used.",
    ),
    cfg.StrOpt("attestation_auth_blob", secret=True, help="Sent to the service in the header x-auth-blob, if set."),
    cfg.IntOpt(
        "attestation_auth_timeout",
        default=60,
        min=0,
        help="Seconds for which an answer counts, from the time that the service gives it (vtime). When one is older, "
        "all nodes are asked for again.",
    ),
    cfg.IntOpt(
        "attestation_request_timeout",
        default=10,
        min=1,
        help="Seconds to wait for the service. Requests for trusted hosts wait so long if it is gone, and then find "
        "no host; others do not wait.",
    ),
    cfg.BoolOpt(
        "attestation_insecure_ssl",
        default=False,
        help="Whether to take whatever certificate the service shows. For trials only: who stands between can then "
        "attest anything.",
    ),
]

# SIGHUP makes the filters and weighers anew, with all of these.
for _option in (*FILTER_OPTS, *TRUSTED_OPTS):
    _option.mutable = True


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("DEFAULT", FILTER_OPTS), (TRUSTED_GROUP, TRUSTED_OPTS)]
