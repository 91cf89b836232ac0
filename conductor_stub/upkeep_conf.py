# SPDX-License-Identifier: Apache-2.0
"""The conductor's options for what it does unasked: recoveries, balancing, and the hooks of maintenances.

:mod:`conductor_stub.conf` registers them; ``steps`` parses each section into its settings.
"""

from collections.abc import Sequence

from oslo_config import cfg

#: The section of recoveries, and the values of its option ``fence``.
RECOVERY = "recovery"
FENCE_COMMAND, FENCE_STORAGE, FENCE_NONE = "command", "storage", "none"
RECOVERY_OPTS = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Whether conductors recover hosts by themselves: a host that is down is fenced, and its guests are evacuated. "
        "The metadata 'recovery' of an aggregate (on or off) decides for its hosts; off wins. Set all options of this "
        "section alike on all conductors.",
    ),
    cfg.IntOpt(
        "wait_time",
        default=120,
        min=0,
        help="Seconds without a heartbeat after which a host is recovered, and no less than service_down_time. A host that "
        "an operator forces down is recovered at once; one whose agent was stopped is not. After an outage of the "
        "conductors, or of many hosts, the time begins anew.",
    ),
    cfg.StrOpt(
        "fence",
        default=FENCE_COMMAND,
        choices=[
            (FENCE_COMMAND, "fence_command must succeed first"),
            (
                FENCE_STORAGE,
                "no fence: the storage of all guests refuses a second writer, by locks that a dead host loses",
            ),
            (FENCE_NONE, "no fence: a guest whose host is only cut off runs twice from then on, and may ruin its data"),
        ],
        help="What makes sure that the guests of a silent host do not run any more. The metadata 'recovery_fence' of an "
        "aggregate chooses for its hosts: a name of fence_commands, storage or none.",
    ),
    cfg.DictOpt(
        "fence_commands",
        default={},
        help="Further commands as fence_command, by name, such as ipmi:/usr/local/sbin/ipmi-off,pdu:/usr/local/sbin/off. "
        "Set it if hosts are switched off in different ways: an aggregate names one in its metadata 'recovery_fence'. "
        "The names command, storage and none are taken.",
    ),
    cfg.StrOpt(
        "fence_command",
        help="Program, with its arguments, that switches a host off: by IPMI, a power switch or a script. The host's name "
        "is added as the last argument. Exit status 0 means that the host is certainly off; anything else, and no end "
        "within fence_timeout, is a failure. It may run again for a host that is off already. All that it has started "
        "is killed when it ends, after fence_timeout, and when its conductor dies. Its environment has "
        "FLEET_HOST, FLEET_RECOVERY, FLEET_FENCE_ATTEMPT and FLEET_FENCE_TIMEOUT. No shell reads it.",
    ),
    cfg.IntOpt("fence_timeout", default=60, min=1, max=3600, help="Seconds after which fence_command is killed."),
    cfg.IntOpt(
        "fence_attempts",
        default=3,
        min=1,
        max=100,
        help="How often a fence is tried. After that the recovery is held until 'fleet recovery resume'.",
    ),
    cfg.FloatOpt(
        "largest_share",
        default=0.3,
        min=0.0,
        max=1.0,
        help="If more than this share of the hosts of a domain is silent at a time, and more than one host, conductors "
        "begin no recovery, no fence and no evacuation there: a broken switch must not evacuate a room. The fleet is a "
        "domain; domain_label makes more. Hosts that an operator has disabled or forced down do not count.",
    ),
    cfg.StrOpt(
        "domain_label",
        help="Key of a label of hosts, such as room; of a host without it, the metadata of its aggregates count. The hosts "
        "of each value are a domain for largest_share. Not set: the fleet is the only domain.",
    ),
    cfg.IntOpt(
        "parallel",
        default=10,
        min=1,
        max=1000,
        help="The most guests that recoveries move at a time, in the whole fleet.",
    ),
]

#: The section of balancing.
BALANCE = "balance"
BALANCE_OPTS = [
    cfg.IntOpt(
        "interval",
        default=60,
        min=5,
        max=86400,
        help="Seconds between two looks at an aggregate whose metadata has balance=suggest, confirm or auto. No other "
        "aggregate is looked at. Shorter: hot hosts are seen sooner; each look reads all hosts and guests of the aggregate. "
        "Set the section alike on all conductors.",
    ),
    cfg.FloatOpt(
        "threshold",
        default=12,
        min=1,
        max=100,
        help="A host is hot while its share of CPU or of memory is above the mean load of its aggregate by so many points "
        "(percent of a host). The load of a host is the larger of the two. Raise it where hosts differ by nature.",
    ),
    cfg.FloatOpt(
        "least_load",
        default=40,
        min=0,
        max=100,
        help="A host below this load, in points, is never hot: moves between idle hosts bring no gain. See least_cpu_load.",
    ),
    cfg.FloatOpt(
        "least_cpu_load",
        default=70,
        min=0,
        max=100,
        help="Points below which a measured CPU load makes no host hot: the share of its processors that is busy, plus that "
        "of the time in which work waits for them. least_load holds, too. Lower it where hosts are to be alike rather than "
        "not busy.",
    ),
    cfg.FloatOpt(
        "most_cpu_load",
        default=75,
        min=1,
        max=200,
        help="Points of a measured CPU load above which a host is hot, even if it is above the mean by less than the "
        "threshold, though by margin at least. Where all hosts are busy, the threshold alone lets some be overloaded. 200 "
        "turns it off.",
    ),
    cfg.IntOpt(
        "hold_time",
        default=120,
        min=0,
        max=7 * 86400,
        help="Seconds for which a host must be hot before guests move. Its load is the mean of some minutes already, if its "
        "agent measures guests; otherwise it must be hot five times as long. Raise it where load comes in short peaks.",
    ),
    cfg.FloatOpt(
        "margin",
        default=3,
        min=0.1,
        max=100,
        help="Points by which a move must relieve the hotter of its two hosts; for a guest of 64 GiB of memory and disk "
        "twice as many, and so on. A move that makes its new host hot is never taken. Raise it for fewer moves.",
    ),
    cfg.IntOpt(
        "most_moves",
        default=3,
        min=1,
        max=100,
        help="Moves of one round of an aggregate, at most. Raise it where hosts are large and guests are small.",
    ),
    cfg.IntOpt(
        "most_gib",
        default=128,
        min=1,
        max=1000000,
        help="GiB of memory and disk that one round of an aggregate moves, at most. A larger guest never moves by itself.",
    ),
    cfg.IntOpt(
        "cooldown",
        default=6 * 3600,
        min=0,
        max=30 * 86400,
        help="Seconds after a move of a guest, by whomever, in which balancing does not move it again.",
    ),
]

#: The section of maintenances.
MAINTENANCE = "maintenance"
MAINTENANCE_OPTS = [
    cfg.DictOpt(
        "hooks",
        default={},
        help="Commands that a maintenance may run for a host when it is empty, by name, such as "
        "reboot:/usr/local/bin/reboot-host,upgrade:/usr/local/bin/upgrade-host. 'fleet maintenance run --hook NAME' chooses "
        "one: a client cannot name a command of its own. The host's name is added as the last argument. Exit status 0 means "
        "that the work is done; anything else, and no end within hook_timeout, is a failure. A command may run again for "
        "the same host, after a conductor has died beside an earlier run. Its environment has FLEET_HOST, "
        "FLEET_MAINTENANCE and FLEET_HOOK_ATTEMPT. No shell reads it. Set the section alike on all conductors.",
    ),
    cfg.IntOpt(
        "hook_timeout",
        default=1800,
        min=1,
        max=86400,
        help="Seconds after which a hook is killed. If its conductor dies, another one runs the hook again after this time: "
        "set it a little above what the work takes.",
    ),
    cfg.IntOpt(
        "return_timeout",
        default=1800,
        min=60,
        max=86400,
        help="Seconds that the agent of a host has to come back after the work: up, of the wanted release, and with a "
        "report of its inventory. After them the host has failed: it stays out of use until an operator decides, and is "
        "recovered if it is down. A host that is down in its turn is left out after the same time. Set it above what a boot "
        "takes.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    for name, title, opts in (
        (RECOVERY, "Recovery of hosts that are down", RECOVERY_OPTS),
        (BALANCE, "Calm balancing of aggregates", BALANCE_OPTS),
        (MAINTENANCE, "Maintenance of hosts in waves", MAINTENANCE_OPTS),
    ):
        conf.register_opts(opts, group=cfg.OptGroup(name, title=title))


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(RECOVERY, RECOVERY_OPTS), (BALANCE, BALANCE_OPTS), (MAINTENANCE, MAINTENANCE_OPTS)]
