# SPDX-License-Identifier: Apache-2.0
"""The conductor's options.

:mod:`conductor_stub.main` registers them, and the sample file of the options lists them.
"""

from collections.abc import Sequence

from oslo_config import cfg, types

from conductor_stub import upkeep_conf
from fleet import domains
from fleet.clock import durations
from fleet.objects.build_request import LONGEST_WAIT_S
from fleet.objects.fields import INT32_MAX
from fleet.objects.flavor_mix import HALF_LIFE_S
from fleet.objects.quota import UNLIMITED


class _Duration(types.ConfigType):
    """An option type: seconds that a build may wait, from ``90``, ``30m``, ``2h`` or ``1d``."""

    def __init__(self) -> None:
        super().__init__("duration")

    def __call__(self, value: object) -> int:
        wait_s = durations.parse(str(value))
        if wait_s > LONGEST_WAIT_S:
            raise ValueError(f"must be at most {LONGEST_WAIT_S // 86400}d, got {value!r}")
        return wait_s

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = types.ConfigType.__hash__

    def _formatter(self, value: object) -> str:
        return str(value)


OPTS = [
    domains.option(
        "conductor_domains",
        "What this conductor places and drives to an end: compute for virtual machines, volume for volumes. A conductor "
        "that serves compute also answers users, agents and schedulers about both, so at least one must. Name one domain "
        "to divide the work among daemons. Related: scheduler_domains.",
    ),
    cfg.IntOpt(
        "instance_build_timeout",
        default=600,
        min=1,
        help="Seconds within which every build ends, counted from its acceptance. A build that is not finished then ends "
        "in ERROR, with a fault that names its step.",
    ),
    cfg.StrOpt(
        "default_schedule_zone",
        help="Availability zone of requests that name none. Not set: any zone.",
    ),
    cfg.BoolOpt(
        "allow_resize_to_same_host",
        default=False,
        help="Whether a resize may choose the instance's own host. The host then holds both flavors until the resize is "
        "confirmed or reverted. False excludes the host.",
    ),
    cfg.IntOpt(
        "resize_confirm_window",
        default=0,
        min=0,
        help="Seconds after which a finished resize is confirmed automatically. The former host then no longer keeps "
        "resources for a revert. 0 never confirms: use 'fleet server resize confirm' or 'revert'.",
    ),
    cfg.IntOpt(
        "shelved_offload_time",
        default=0,
        min=-1,
        help="Seconds after which a shelved instance gives its host back: its disk is kept where other hosts reach it, and "
        "to unshelve it is a new choice of a host. 0: at once. -1: never. An instance stays where its host has no such "
        "place: the driver libvirt has none yet.",
    ),
    cfg.BoolOpt(
        "enable_new_services",
        default=None,
        sample_default="true; false with [message_signing] keys_file",
        help="Whether a host or storage backend takes builds as soon as its agent has registered for the first time. If "
        "false, enable it with 'fleet service enable'. By default it does, unless messages are signed.",
    ),
]

CONDUCTOR_OPTS = [
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        help="Number of worker processes. Conductors on any number of machines can share one database.",
    ),
    cfg.IntOpt(
        "sweep_interval",
        default=5,
        min=1,
        help="Seconds between two searches for builds whose step is overdue.",
    ),
    cfg.IntOpt(
        "placing_timeout",
        default=30,
        min=1,
        help="Seconds from the moment a conductor takes a build until a host has claimed it. After that the sweeper gives "
        "the build to another worker. Set it above the longest time that select_destinations and the agents' queues "
        "take. A value that is too low causes extra work, but no errors.",
    ),
    cfg.IntOpt(
        "flavor_mix_half_life",
        default=HALF_LIFE_S,
        min=60,
        help="Seconds after which a request counts half in the flavor mix: how often the fleet is asked for each size of "
        "instance, and how long such instances live. Lower it if the demand changes quickly. Set it to the same value "
        "for all conductors. Related: fragmentation_weight_multiplier; 'fleet flavor list --long' shows the mix.",
    ),
    cfg.IntOpt(
        "spawn_timeout",
        default=300,
        min=1,
        help="Seconds that a host may take to start an instance after the claim. After that the attempt has failed, and "
        "the next host is tried.",
    ),
    cfg.IntOpt(
        "move_timeout",
        default=600,
        min=1,
        help="Seconds within which a resize or an evacuation must succeed, counted from its acceptance. The time in which "
        "a resize waits for its confirmation does not count. A move that takes longer is undone: the instance stays "
        "on its host with its flavor.",
    ),
    cfg.IntOpt(
        "max_live_migrations_per_host",
        default=4,
        min=0,
        help="Guests that leave a host, or come to it, at a time while they run; others wait for a slot, and the wait does "
        "not count for move_timeout. More of them share its network, and each takes longer. 0: any number. Set the same for "
        "all conductors.",
    ),
    cfg.IntOpt(
        "max_live_migrations",
        default=0,
        min=0,
        help="Guests of the whole fleet that move at a time while they run, if the network between racks is what is scarce. "
        "0: any number. Set the same for all conductors.",
    ),
    cfg.IntOpt(
        "volume_timeout",
        default=600,
        min=1,
        help="Seconds within which a volume or snapshot must be made, extended, migrated or removed, counted from the "
        "acceptance of the request. What takes longer ends in error, error_extending or error_deleting; a volume that is "
        "not migrated stays where it is. Raise it if backends copy large images or volumes.",
    ),
    cfg.IntOpt(
        "attach_timeout",
        default=300,
        min=1,
        help="Seconds from a request to attach or detach a volume until its host has done it. Afterwards an attachment is "
        "undone, and a volume that was to be detached stays in use. Keep it above the compute agents' driver_timeout.",
    ),
    cfg.IntOpt(
        "power_timeout",
        default=300,
        min=1,
        help="Seconds within which a host must stop, start, reboot, suspend or resume a guest, counted from the acceptance "
        "of the request. After that the instance is as before, and the next audit shows the guest's power state. Set it "
        "above driver_timeout of the agents.",
    ),
    cfg.IntOpt(
        "retry_interval",
        default=3,
        min=1,
        help="Seconds until a build is placed again after the scheduler did not answer or the message was lost. A host "
        "that refused the claim of a build is excluded for the same time, and a host whose agent had no queue for "
        "four times as long.",
    ),
    cfg.IntOpt(
        "hosts_down_retry_time",
        default=120,
        min=0,
        help="Seconds that a build waits for silent hosts that might take it, before it ends in ERROR with HOSTS_DOWN. "
        "After an outage of the broker or of the conductors all hosts look down until their agents report again. Set "
        "it to at least twice service_down_time. Builds do not wait for hosts that are disabled or forced down. 0 "
        "never waits.",
    ),
    cfg.Opt(
        "wait_for_capacity",
        type=types.Dict(value_type=_Duration()),
        default={},
        sample_default="*:0",
        help="How long builds wait if no host has room for them, by project: PROJECT:DURATION, separated by commas, and "
        "* for all other projects. A duration is a number of seconds, or a number with s, m, h or d, at most 30d; 0 does "
        "not wait. A request may name its own time ('fleet boot --wait-for-capacity'). A build that waits is in state "
        "queued; one that no host could take even when empty (NEVER_FITS) ends at once.",
    ),
    cfg.IntOpt(
        "queue_recheck_interval",
        default=600,
        min=1,
        help="Seconds after which builds that wait for room are tried again even if nothing has woken them: of "
        "those that are alike, the oldest. Changes of hosts wake builds within about a second, so this is a safety net.",
    ),
    cfg.IntOpt(
        "queue_patience",
        default=600,
        min=0,
        help="Seconds that a build waits for room while smaller or later ones are placed. After that one host may be kept "
        "for it: no build of another request is placed there until it fits. At most one host is kept at a time, for the "
        "oldest build of a project; projects take turns. 0 keeps no host; a large build may then wait in vain.",
    ),
    cfg.IntOpt(
        "claim_refusals",
        default=10,
        min=0,
        help="How many refused claims of one build do not count as attempts. A claim is refused if another build was "
        "faster; the next host is then tried. Further refusals count towards scheduler_max_attempts. Raise it if many "
        "schedulers work on a nearly full fleet.",
    ),
]


_QUOTA_HELP = (
    "The most {what} of a project without a limit of its own ('fleet quota set'). -1 is unlimited. A lower value "
    "takes nothing away. Set it alike on all conductors."
)
QUOTA_OPTS = [
    cfg.IntOpt(name, default=UNLIMITED, min=UNLIMITED, max=INT32_MAX, help=_QUOTA_HELP.format(what=what))
    for name, what in (
        ("instances", "instances, with those that have failed or wait for room,"),
        ("cores", "vCPUs of all instances"),
        ("ram", "memory of all instances in MiB"),
        ("local_gb", "GiB of local disk of all instances (root, ephemeral, and swap rounded up)"),
        ("server_groups", "server groups"),
        ("volumes", "volumes, with those that have failed,"),
        ("gigabytes", "GiB of all volumes and snapshots"),
    )
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)
    # The group is this configuration's own: a shared one would carry overrides from one to the next.
    conf.register_opts(CONDUCTOR_OPTS, group=cfg.OptGroup("conductor", title="Conductor"))
    conf.register_opts(QUOTA_OPTS, group=cfg.OptGroup("quota", title="Quotas of projects"))
    upkeep_conf.register_opts(conf)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [
        *(("DEFAULT", OPTS), ("conductor", CONDUCTOR_OPTS), ("quota", QUOTA_OPTS)),
        *upkeep_conf.list_opts(),
    ]
