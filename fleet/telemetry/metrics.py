# SPDX-License-Identifier: Apache-2.0
"""All metrics of the daemons. Each is counted where the event happens. The page of a daemon shows a part of them
(:mod:`fleet.telemetry.exposition`).

Labels have few values: names of filters and methods, reason codes, steps. No metric has a host or an instance as
label.
"""

from __future__ import annotations

import prometheus_client as prometheus

#: Buckets in seconds: from a decision in a small fleet to a call that waits for the database.
_DECISION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
#: Buckets in seconds: from a build in an embedded trio to the deadline.
_BUILD_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)

# The scheduler
DECISIONS = prometheus.Counter(
    "fleet_scheduler_decisions",
    "Requests answered, by result (placed, refused, failed) and reason",
    ["result", "reason"],
)
DECISION_SECONDS = prometheus.Histogram(
    "fleet_scheduler_decision_seconds",
    "From a request's arrival to its answer, waiting for the newest host states included",
    buckets=_DECISION_BUCKETS,
)
FILTER_SECONDS = prometheus.Counter("fleet_scheduler_filter_seconds", "Time spent in each filter", ["filter"])
FILTER_REJECTIONS = prometheus.Counter(
    "fleet_scheduler_filter_rejections", "Hosts that a filter was the first to drop", ["filter"]
)
CACHE_READ_AT = prometheus.Gauge(
    "fleet_scheduler_cache_read_timestamp_seconds", "When the host states were last read from the database"
)
CACHE_GENERATION = prometheus.Gauge("fleet_scheduler_cache_generation", "The newest change that is known")
CACHE_LAG = prometheus.Gauge(
    "fleet_scheduler_cache_generation_lag", "How many changes the newest reading brought that were not known before it"
)
CACHE_READ_FAILURES = prometheus.Counter("fleet_scheduler_cache_read_failures", "Readings of the database that failed")
CACHE_SIZE = prometheus.Gauge("fleet_scheduler_cache_entries", "What is known and booked", ["kind"])

TOLERANCE_LOSSES = prometheus.Gauge(
    "fleet_scheduler_tolerance_losses",
    "Losses of hosts that the fleet promises to survive, by verdict of the newest proof (safe, unsafe, not proved)",
    ["verdict"],
)
TOLERANCE_UNPROTECTED = prometheus.Gauge(
    "fleet_scheduler_tolerance_unprotected_guests",
    "Guests that would not all find another host after one of these losses, by the newest proof",
)
TOLERANCE_PROVED_AT = prometheus.Gauge(
    "fleet_scheduler_tolerance_proved_timestamp_seconds", "When the promises were last proved"
)
TOLERANCE_PROOF_AGE = prometheus.Gauge(
    "fleet_scheduler_tolerance_proof_age_seconds",
    "Seconds since the promises were last proved, or since the first try if they were never proved; 0 without a promise",
)
TOLERANCE_OBJECTIONS = prometheus.Counter(
    "fleet_scheduler_tolerance_objections",
    "Placements that break a promise (policies warn and last), or were refused because of one (refuse)",
    ["policy"],
)

# The conductor
BUILDS_ACCEPTED = prometheus.Counter("fleet_conductor_builds_accepted", "Instances that were accepted")
BUILDS_ENDED = prometheus.Counter(
    "fleet_conductor_builds_ended", "Builds that came to an end, by vm_state and reason", ["state", "reason"]
)
BUILD_SECONDS = prometheus.Histogram(
    "fleet_conductor_build_seconds", "Age of a build when it ended", buckets=_BUILD_BUCKETS
)
RETRIES = prometheus.Counter(
    "fleet_conductor_retries",
    "Attempts that failed and were followed by another, by step and reason",
    ["step", "reason"],
)
BACKLOG = prometheus.Gauge("fleet_conductor_builds", "Builds under way, by task_state, when last looked at", ["step"])
OLDEST_BUILD = prometheus.Gauge(
    "fleet_conductor_oldest_build_seconds", "Age of the oldest build under way, when last looked at"
)
QUEUED_BUILDS = prometheus.Gauge("fleet_conductor_queued_builds", "Builds that wait for room, when last counted")
OLDEST_QUEUED = prometheus.Gauge(
    "fleet_conductor_oldest_queued_build_seconds", "How long the oldest of them has waited, when last counted"
)
WAKES = prometheus.Counter(
    "fleet_conductor_wakes", "Builds that waited for room and were placed anew, by cause (change, recheck)", ["cause"]
)
SWEEPER_ACTIONS = prometheus.Counter(
    "fleet_conductor_sweeper_actions", "What the sweeper did about steps that took too long", ["action"]
)

VOLUMES_ACCEPTED = prometheus.Counter("fleet_conductor_volumes_accepted", "Volumes that were accepted")
VOLUME_REPORTS = prometheus.Counter(
    "fleet_conductor_volume_reports",
    "Reports of storage backends on volumes and snapshots, by status (creating, extending …) and result (done, failed)",
    ["status", "result"],
)
VOLUMES = prometheus.Gauge("fleet_conductor_volumes", "Volumes under way, by step, when last looked at", ["step"])
OLDEST_VOLUME = prometheus.Gauge(
    "fleet_conductor_oldest_volume_seconds",
    "Seconds since the oldest change of a volume under way, when last looked at",
)
HOSTS = prometheus.Gauge(
    "fleet_conductor_hosts",
    "Hosts by state (up, down) and status (enabled, disabled), when last counted",
    ["state", "status"],
)
RESOURCES = prometheus.Gauge(
    "fleet_conductor_resources",
    "What instances have (used) and may have (limit: physical, without reserved, times the ratio) of vcpus, memory_mb and "
    "disk_gb on the hosts of each state and status",
    ["resource", "kind", "state", "status"],
)
RECOVERIES = prometheus.Gauge(
    "fleet_conductor_recoveries",
    "Recoveries of hosts that have not ended, by status (fencing, held, moving, paused), when last looked at",
    ["status"],
)
RECOVERIES_STOPPED = prometheus.Gauge(
    "fleet_conductor_recoveries_stopped",
    "Domains in which so many hosts are silent at once that conductors recover none, when last looked at",
)
MAINTENANCE_HOSTS = prometheus.Gauge(
    "fleet_conductor_maintenance_hosts",
    "Hosts of maintenances that have not ended, by status (waiting, draining, working, returning, failed)",
    ["status"],
)
BALANCE_ABOVE_MEAN = prometheus.Gauge(
    "fleet_conductor_balance_above_mean_points",
    "Points by which the load of the most loaded host of an aggregate is above the mean, when last looked at",
    ["aggregate"],
)
BALANCE_MOVES = prometheus.Counter("fleet_conductor_balance_moves", "Moves that balancing has begun", ["aggregate"])
POOLS = prometheus.Gauge("fleet_conductor_pools", "Storage pools that are reported")
POOL_SPACE = prometheus.Gauge(
    "fleet_conductor_pool_gigabytes",
    "GiB of all storage pools with a known capacity (total, free), and what volumes claim of them (allocated)",
    ["kind"],
)

# The scheduler in the place of nova-scheduler
NOVA_CLAIMS = prometheus.Counter(
    "fleet_nova_claims", "Claims in placement by result (taken, full, changed, unknown)", ["result"]
)

SHADOW = prometheus.Counter("fleet_scheduler_shadow", "Instances that a shadow has compared, by outcome", ["outcome"])

# The agent
CLAIMS = prometheus.Counter("fleet_compute_claims", "Claims tested, by result (held, refused)", ["result"])
ORDERS_DROPPED = prometheus.Counter(
    "fleet_compute_orders_dropped",
    "Orders not acted on, by order (build, terminate, advance) and reason (invalid, unwanted, unconfirmed)",
    ["order", "reason"],
)
SPAWNS = prometheus.Counter("fleet_compute_spawns", "Spawns by result (done, failed)", ["result"])
SPAWN_SECONDS = prometheus.Histogram(
    "fleet_compute_spawn_seconds", "Time in the driver's spawn", buckets=_BUILD_BUCKETS
)

GUEST_CHANGES = prometheus.Counter(
    "fleet_compute_guest_changes",
    "Guests found in another power state than their row's, by what was found (gone, crashed, off, running …)",
    ["found"],
)
GUEST_ACTIONS = prometheus.Counter(
    "fleet_compute_guest_actions",
    "What was done about guests that do not run (restart, restart failed, move, error)",
    ["action"],
)

# All of them
RPC_TIMEOUTS = prometheus.Counter("fleet_rpc_timeouts", "Calls that were not answered in time", ["method"])
FOREIGN_MESSAGES = prometheus.Counter(
    "fleet_rpc_foreign_messages",
    "Messages refused because their sender works for another ledger, or uses another exchange",
)
MESSAGES_UNREADABLE = prometheus.Counter(
    "fleet_rpc_messages_unreadable", "Messages that were dropped, as they could not be read"
)
MESSAGES_REPEATED = prometheus.Counter(
    "fleet_rpc_messages_repeated", "Messages and replies that had come before: dropped, or answered as the first time"
)
ANSWERS_DROPPED = prometheus.Counter(
    "fleet_rpc_answers_dropped", "Answers that were dropped, as their caller had no queue any more"
)
NOTIFICATIONS_DROPPED = prometheus.Counter(
    "fleet_notifications_dropped", "Notifications that were dropped, as too many waited for their broker"
)
CONNECTIONS_BROKEN = prometheus.Counter(
    "fleet_rpc_connections_broken",
    "Connections to the broker that were closed because what came could not be handled",
)
DATABASE_RETRIES = prometheus.Counter(
    "fleet_database_failures", "Transactions that failed and may be tried again, by error", ["error"]
)
UNREADABLE_VALUES = prometheus.Counter(
    "fleet_database_unreadable_values", "Readings of stored JSON values that cannot be read and count as empty"
)
ROUND_TRIP_SECONDS = prometheus.Gauge(
    "fleet_round_trip_seconds", "Duration of the newest round trip through the part", ["part"]
)
ROUND_TRIP_FAILURES = prometheus.Counter("fleet_round_trip_failures", "Round trips that failed", ["part"])
READY = prometheus.Gauge("fleet_ready", "1 while all round trips succeed")
