# SPDX-License-Identifier: Apache-2.0
"""Every error that crosses a service boundary.

An error carries its facts as keyword arguments and builds its message from them, once, so that both ends of an RPC call
see the same attributes: oslo.messaging rebuilds a remote error from ``kwargs``. A refusal (a full host, a stale message)
is an expected answer; anything not in this file that reaches a boundary is a bug.
"""

from fleet.reasons import Reason


class FleetError(Exception):
    """Base of all expected errors. ``str()`` of a remote copy carries transport noise; show ``message`` instead.

    ``reason_code`` says why in one word, for faults and logs.
    """

    code = 500
    reason_code = Reason.INTERNAL
    #: Whether no host can mend it: a build that meets it ends, and is not tried elsewhere.
    final = False
    template = "An unknown error occurred."

    def __init__(self, **kwargs: object) -> None:
        super().__init__()
        self.kwargs = kwargs
        self.__dict__.update(kwargs)

    @property
    def message(self) -> str:
        return self.template.format(**self.kwargs)

    def __str__(self) -> str:
        return self.message


class InvalidInput(FleetError):
    """A request is malformed. ``field`` is the path of the offending value; correct it and send again."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    final = True
    template = "Invalid input for {field}: {reason}"
    field: str
    reason: str


class NotFound(FleetError):
    """The named thing does not exist (or was deleted)."""

    code = 404
    reason_code = Reason.MISCONFIGURED
    template = "{kind} {name} could not be found."
    kind: str
    name: str


class Conflict(FleetError):
    """The thing exists already, or is in a state that forbids the operation."""

    code = 409
    reason_code = Reason.MISCONFIGURED
    template = "{kind} {name} {reason}"
    kind: str
    name: str
    reason: str


class NoValidHost(FleetError):
    """No host can take the request.

    ``reason`` is a sentence; ``details`` is the decision record (see ``docs/explain.md``): how many hosts were
    considered, how many each filter kept, the dominant ``reason_code`` and the nearest misses. Do what the code's
    description says (:class:`fleet.reasons.Reason`).
    """

    reason_code = Reason.CAPACITY
    template = "No valid host was found. {reason}"
    reason: str

    def __init__(self, *, reason: str, details: dict | None = None) -> None:
        super().__init__(reason=reason, details=details or {})
        self.details: dict = details or {}
        self.reason_code = Reason(self.details.get("reason_code") or type(self).reason_code)


class MaxRetriesExceeded(NoValidHost):
    """Every attempt that ``scheduler_max_attempts`` allows has been used; each is listed in the instance's events."""

    reason_code = Reason.RACE_LOST
    template = "Exceeded maximum number of retries. {reason}"


class VersionPinned(FleetError):
    """A method that came with version ``needs`` of ``topic``'s API, where ``cap`` is the newest that may be sent.

    Upgrade the services of that topic; with a version in ``pin``, take it out of ``[upgrade_levels]`` afterwards.
    """

    code = 503
    reason_code = Reason.MISCONFIGURED
    template = "{method} needs version {needs} of the {topic}'s API; [upgrade_levels] {topic} = {pin} allows {cap}."
    topic: str
    method: str
    needs: str
    cap: str
    pin: str


class ForeignLedger(FleetError):
    """A message of a process that works for another database. Nothing was done; another receiver may be the right one.

    Give each fleet a broker, virtual host or ``control_exchange`` of its own. ``fleet-manage ledger`` if a database was
    replaced on purpose.
    """

    code = 409
    reason_code = Reason.MISCONFIGURED
    template = "Ledger {theirs} is foreign here: this {service} works for ledger {ours}."
    theirs: str
    ours: str
    service: str


class ClockSkewed(FleetError):
    """This daemon's clock is off the database's by more than ``max_clock_skew``: it leaves the work to others.

    Run a time service on its machine. Nothing was done; another daemon may do it.
    """

    code = 503
    reason_code = Reason.MISCONFIGURED
    template = "{problem} The daemon takes no evacuation until it is in step."
    problem: str


class NotTrusted(FleetError):
    """A message whose signature is missing, wrong, too old, or of a key that is not for what it says.

    Look at ``[message_signing]`` on both sides, and at their clocks. If that is in order, somebody tries.
    """

    code = 403
    reason_code = Reason.MISCONFIGURED
    template = "The message is not trusted: {reason}."
    reason: str


class PluginFailed(FleetError):
    """A filter or weigher raised, or answered with what it must not; ``plugin`` is its class, ``problem`` what it did.

    Mend it, take it out of the configuration, or set ``scheduler_filter_error_policy`` to skip.
    """

    reason_code = Reason.MISCONFIGURED
    template = "{kind} {plugin} failed: {problem}"
    kind: str
    plugin: str
    problem: str


class StaleState(FleetError):
    """The scheduler cannot read the database, and what it knows is older than ``scheduler_max_state_age`` allows."""

    code = 503
    reason_code = Reason.STALE_STATE
    template = "The scheduler cannot read the state of the hosts ({problem}), and what it knows of them is {age}."


class RequestExpired(FleetError):
    """A scheduler took a request up when its caller had ceased to wait, ``late_s`` seconds ago: nothing was chosen.

    The caller asks again by itself. If it is every request, compare the clocks of conductors and schedulers.
    """

    code = 504
    reason_code = Reason.MESSAGING
    template = "The request was taken up {late_s} s after its caller had ceased to wait."
    late_s: str


class NotSupported(FleetError):
    """The configured scheduler driver does not do this."""

    code = 501
    reason_code = Reason.MISCONFIGURED
    template = "{what} is not supported by {driver}."


class ComputeResourcesUnavailable(FleetError):
    """A claim was refused: the host is fuller than the scheduler believed. Another host is tried."""

    code = 400
    reason_code = Reason.RACE_LOST
    template = "Insufficient compute resources: {reason}."
    reason: str


class GroupAffinityViolation(FleetError):
    """Placing the instance here would break its group's policy, as seen when the claim was recorded."""

    reason_code = Reason.RACE_LOST
    template = "Instance {instance_uuid} on host {host} would violate the {policy} policy of group {group_uuid}."


class StaleBuild(FleetError):
    """The message is late: the build has moved on (other attempt, other host, deleted). Drop the work silently."""

    code = 409
    template = "Build of instance {instance_uuid} attempt {attempt} is no longer expected here: {reason}"
    instance_uuid: str
    attempt: int
    reason: str


class StaleIncarnation(FleetError):
    """Another process has registered this host since. The caller must stop serving it."""

    code = 409
    template = "Host {host} is served by another process now (started {started_at} as pid {pid} on {hostname})."
    host: str


class HostTaken(FleetError):
    """Another agent serves this host, and lives. Stop it first, or give this one another name (option ``host``)."""

    code = 409
    reason_code = Reason.MISCONFIGURED
    template = (
        "Host {host} is served by another agent: pid {pid} on {hostname}, identity {identity}, since {started_at}. "
        "Two agents must not share a host."
    )
    host: str


class BuildAbort(FleetError):
    """The build cannot succeed anywhere (or cannot be cleaned up here); no other host is tried."""

    final = True
    template = "Build of instance {instance_uuid} aborted: {reason}"
    instance_uuid: str
    reason: str


class ImageUnacceptable(FleetError):
    """The image cannot be used, on whatever host. A driver raises it; use another image."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    final = True
    template = "Image {image_id} is unacceptable: {reason}"
    image_id: str
    reason: str


class FlavorDiskTooSmall(FleetError):
    """The flavor's root disk is too small for the image. A driver raises it; use a larger flavor."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    final = True
    template = "Root disk of {flavor_gb} GB is too small for image {image_id}, which has {image_bytes} bytes"
    flavor_gb: int
    image_id: str
    image_bytes: int


class ReportRefused(FleetError):
    """A host's inventory is missing, negative or not a number. The previous one is kept; mend the driver."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    template = "Inventory of {host}:{node} refused: {field} {reason}"


class ServiceDown(FleetError):
    """The host's agent has no queue on the broker or no recent heartbeat."""

    code = 503
    reason_code = Reason.HOSTS_DOWN
    template = "Service {binary} on host {host} is down: {reason}"


class DatabaseError(FleetError):
    """The database did not do what it was asked to. Neither statement, values nor address are in the message.

    ``kind`` names the failure, ``retryable`` says whether the same request may succeed later. An agent takes it as an
    unknown outcome: the transaction may have been committed.
    """

    retryable = False
    kind: str
    problem: str


class DatabaseUnavailable(DatabaseError):
    """The database is away, full, locked or read-only for now. Send the request again later."""

    code = 503
    retryable = True
    template = "The database cannot be used now: {problem}."


class DatabaseFailed(DatabaseError):
    """The database refused a statement: a bug, or a schema that was changed by hand. The daemon's log names the place."""

    template = "The database refused a statement: {problem}."


class SchemaMismatch(FleetError):
    """The database schema is not the one this program knows. ``fleet-manage db sync``, or upgrade the program."""

    reason_code = Reason.MISCONFIGURED
    template = "Database schema is at {found}, this program needs {expected}. {advice}"


class ConfigError(FleetError):
    """An option has a value that the service cannot start with."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    template = "Option {option}: {reason}"


class NotConfigured(ConfigError):
    """A required option is not set. Set it in one of the files that the message names."""

    template = "{option} is not set. {files} Set it, {example}, or name another file with --config-file."


class FilterNotFound(ConfigError):
    """``scheduler_default_filters`` names filters that ``scheduler_available_filters`` does not provide."""

    template = "Option scheduler_default_filters: Scheduler Host Filter {filter_name} could not be found."

    def __init__(self, *, filter_name: str) -> None:
        super().__init__(filter_name=filter_name)


class ClassNotFound(ConfigError):
    """A dotted path in the configuration names nothing usable."""

    template = "Option {option}: Class {class_name} could not be found: {reason}"


class MetricNotFound(FleetError):
    """A required metric is missing on a host; put MetricsFilter before the weigher or report the metric."""

    code = 404
    reason_code = Reason.MISCONFIGURED
    template = "Metric {name} could not be found on the compute host node {host}.{node}."


class CPUPinningUnknown(FleetError):
    """An instance holds CPUs that its host cell does not have: the host has changed under it."""

    code = 400
    template = "CPUs {requested} are not among those that may be pinned: {available}."


class CPUPinningInvalid(FleetError):
    """CPUs were to be pinned that are pinned already: what is fitted to one state of a host must be taken from it."""

    code = 400
    template = "CPUs {requested} are not all free: {free} are."
