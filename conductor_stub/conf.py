# SPDX-License-Identifier: Apache-2.0
"""The conductor's options."""

from collections.abc import Sequence

from oslo_config import cfg

OPTS = [
    cfg.IntOpt(
        "instance_build_timeout",
        default=600,
        min=1,
        help="Seconds from acceptance within which every build must end. A build that has not ended by then becomes "
        "ERROR with a fault that names the step it was in.",
    ),
    cfg.StrOpt(
        "default_schedule_zone",
        help="Availability zone of requests that name none. Unset: any zone.",
    ),
    cfg.BoolOpt(
        "allow_resize_to_same_host",
        default=False,
        help="Whether a resize may leave the instance on its host, with the new flavor. The host then holds both sizes "
        "until the resize is confirmed or reverted. If not, the host is left out when a place is looked for.",
    ),
    cfg.IntOpt(
        "resize_confirm_window",
        default=0,
        min=0,
        help="Seconds after which a resize that waits for its confirmation is confirmed by itself, so that its former "
        "host does not keep room for a revert without end. 0: never; it waits for 'fleet server resize confirm' or "
        "'revert'.",
    ),
    cfg.BoolOpt(
        "enable_new_services",
        default=True,
        help="Whether the host of an agent that registers for the first time takes builds at once. If not, enable it "
        "with 'fleet service enable'.",
    ),
]

CONDUCTOR_OPTS = [
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        help="Worker processes. Any number of conductors, on any machines, share the work of one database.",
    ),
    cfg.IntOpt(
        "sweep_interval",
        default=5,
        min=1,
        help="Seconds between looks for builds whose step is overdue.",
    ),
    cfg.IntOpt(
        "placing_timeout",
        default=30,
        min=1,
        help="Seconds that a build may take from a conductor's taking it up until a host has claimed it. After that "
        "it is handed to another worker. Set it above the longest time that select_destinations and the agents' "
        "queues are expected to take: a build handed on too early costs work, never correctness.",
    ),
    cfg.IntOpt(
        "spawn_timeout",
        default=300,
        min=1,
        help="Seconds that a host may take to spawn an instance after its claim, while its agent lives. After that "
        "the attempt counts as failed and the next host is tried.",
    ),
    cfg.IntOpt(
        "move_timeout",
        default=600,
        min=1,
        help="Seconds from acceptance within which a resize (until it waits for its confirmation) or an evacuation must "
        "have succeeded. One that has not is undone: the instance stays where it was, with the flavor that it had.",
    ),
    cfg.IntOpt(
        "retry_interval",
        default=3,
        min=1,
        help="Seconds until a build is handed out again after its scheduler did not answer or its message was lost. Also "
        "how long a host is left alone that has refused a build's claim, and a quarter of how long one whose agent had no "
        "queue.",
    ),
    cfg.IntOpt(
        "hosts_down_retry_time",
        default=120,
        min=0,
        help="Seconds that a build waits for hosts that might take it and have fallen silent, before it ends in ERROR "
        "with HOSTS_DOWN. After an outage of the broker or of the conductors all hosts look down until their agents are "
        "heard of again. Set it to twice service_down_time or more. Hosts that are disabled or forced down are not waited "
        "for; 0 waits for none.",
    ),
    cfg.IntOpt(
        "claim_refusals",
        default=10,
        min=0,
        help="How many refused claims of one build spend no attempt of scheduler_max_attempts: another build was faster, "
        "and the next host is tried. Every further one spends an attempt, as the first does with 0. Raise it with the "
        "number of schedulers that work at once on a nearly full fleet.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)
    # The group is this configuration's own: a shared one would carry overrides from one to the next.
    conf.register_opts(CONDUCTOR_OPTS, group=cfg.OptGroup("conductor", title="Conductor"))


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [("DEFAULT", OPTS), ("conductor", CONDUCTOR_OPTS)]
