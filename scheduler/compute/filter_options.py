# SPDX-License-Identifier: Apache-2.0
"""The filters' options: nova's names of the Liberty era; its later names are accepted as aliases.

Called by :mod:`scheduler.compute.conf`.
"""

from __future__ import annotations

from oslo_config import cfg

from scheduler.compute.domain import default_plugins, guest_kinds


def _later(name: str) -> list[cfg.DeprecatedOpt]:
    """The name that nova gave to an option later."""
    return [cfg.DeprecatedOpt(name, group="filter_scheduler")]


FILTER_OPTS = [
    cfg.MultiStrOpt(
        "scheduler_available_filters",
        default=["scheduler.filters.all_filters"],
        deprecated_opts=_later("available_filters"),
        help="Dotted paths of filter classes, or of functions that return filter classes. scheduler_default_filters may "
        "name these classes. May be given several times; a leading 'nova.' is dropped. A built-in filter may be given by "
        "its class name. To add your own filters, set scheduler_additional_filters instead.",
    ),
    cfg.ListOpt(
        "scheduler_default_filters",
        default=list(default_plugins.FILTERS),
        deprecated_opts=_later("enabled_filters"),
        help="Class names of the filters that a host must pass, in this order; or dotted paths, such as that of a filter of "
        "your own which takes the place of a built-in one of the same name. Put filters that exclude many hosts first: "
        "the order affects speed and the reasons of refusals only. An unknown name stops the service at start. A list of "
        "your own replaces the default: a part of a request that no filter judges has no effect.",
    ),
    cfg.MultiStrOpt(
        "scheduler_additional_filters",
        default=[],
        help="Filters that a host must pass besides those of scheduler_default_filters, after them: class names of "
        "built-in filters, or dotted paths of filter classes or of functions that return filter classes. May be given "
        "several times. Two filters of one class name stop the service at start.",
    ),
    cfg.IntOpt(
        "max_io_ops_per_host",
        default=8,
        min=0,
        deprecated_opts=_later("max_io_ops_per_host"),
        help="IoOpsFilter: a host passes if it has fewer builds and other heavy operations under way. "
        "AggregateIoOpsFilter: aggregate metadata of the same name overrides this value.",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=50,
        min=1,
        deprecated_opts=_later("max_instances_per_host"),
        help="NumInstancesFilter: a host passes if it has fewer instances. AggregateNumInstancesFilter: aggregate metadata "
        "of the same name overrides this value.",
    ),
    cfg.ListOpt(
        "isolated_images",
        default=[],
        deprecated_opts=_later("isolated_images"),
        help="IsolatedHostsFilter: ids of images whose instances run on isolated_hosts only.",
    ),
    cfg.ListOpt(
        "isolated_hosts",
        default=[],
        deprecated_opts=_later("isolated_hosts"),
        help="IsolatedHostsFilter: names of the hosts that are reserved for isolated_images.",
    ),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        deprecated_opts=_later("restrict_isolated_hosts_to_isolated_images"),
        help="IsolatedHostsFilter: whether instances of other images are excluded from isolated_hosts. False lets them use "
        "free resources there.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        deprecated_opts=_later("aggregate_image_properties_isolation_namespace"),
        help="AggregateImagePropertiesIsolation: compare only metadata keys that begin with this namespace and the "
        "separator. The whole key is the name of the image property. Not set: all keys are compared. Set it if "
        "aggregates have metadata that is named like an image property by accident.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        default=".",
        deprecated_opts=_later("aggregate_image_properties_isolation_separator"),
        help="AggregateImagePropertiesIsolation: the text between the namespace and the rest of a key.",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        choices=sorted(guest_kinds.ARCHITECTURES),
        deprecated_opts=_later("image_properties_default_architecture"),
        help="ImagePropertiesFilter: architecture of images that name none. Set it if hosts have different architectures. "
        "Not set: such an image may run on any host.",
    ),
]

TRUSTED_GROUP = "trusted_computing"
TRUSTED_OPTS = [
    cfg.HostAddressOpt(
        "attestation_server",
        help="TrustedFilter: address of the attestation service. The filter cannot be used without it.",
    ),
    cfg.StrOpt("attestation_port", default="8443", help="HTTPS port of the attestation service."),
    cfg.StrOpt(
        "attestation_api_url",
        default="/OpenAttestationWebServices/V1.0",
        help="Path of the attestation service's API. The filter sends one request for all nodes to PollHosts below this "
        "path.",
    ),
    cfg.StrOpt(
        "attestation_server_ca_file",
        help="File with the certificates of the authorities that may sign the service's certificate. Not set: the system's "
        "store.",
    ),
    cfg.StrOpt(
        "attestation_auth_blob",
        secret=True,
        help="Value of the header x-auth-blob in requests to the service. Not set: no header.",
    ),
    cfg.IntOpt(
        "attestation_auth_timeout",
        default=60,
        min=0,
        help="Seconds for which an answer is valid, counted from the time in the answer (vtime). If one answer is older, "
        "the filter asks for all nodes again.",
    ),
    cfg.IntOpt(
        "attestation_request_timeout",
        default=10,
        min=1,
        help="Seconds to wait for the service. If the service is away, requests for trusted hosts wait this long and then "
        "find no host. Other requests do not wait.",
    ),
    cfg.BoolOpt(
        "attestation_insecure_ssl",
        default=False,
        help="Whether to accept any certificate of the service. Use it for trials only: an attacker on the network could "
        "then attest any host.",
    ),
]

# SIGHUP makes the filters and weighers anew, with all of these.
for _option in (*FILTER_OPTS, *TRUSTED_OPTS):
    _option.mutable = True


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("DEFAULT", FILTER_OPTS), (TRUSTED_GROUP, TRUSTED_OPTS)]
