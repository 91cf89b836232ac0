# SPDX-License-Identifier: Apache-2.0
"""Signs messages with HMAC-SHA256 over content, destination and time. The receiver learns whose key it was.

A signature is good for one message and for ``lifetime`` seconds (see :mod:`fleet.rpc.trust.replay_protection`). A
message that waited longer counts as lost, and the sweeper sends it again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from oslo_serialization import jsonutils

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.rpc.trust import grants, keyring, replay_protection
from fleet.rpc.trust.keyring import Key, Keyring

LOG = logging.getLogger(__name__)

GROUP = "message_signing"
OPTS = [
    cfg.StrOpt(
        "keys_file",
        default="",
        help="File with the keys that sign messages. Only the daemon's user may read it. Empty: messages are neither "
        "signed nor checked. The first key is the service's own. An agent's file has only its own keys; the files of "
        "conductors and schedulers have all keys. It is read again when it changes.",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        mutable=True,
        help="Whether messages without a signature are refused. Set it to false while you distribute keys: signed messages "
        "are then checked, and unsigned ones are accepted. Needs keys_file.",
    ),
    cfg.IntOpt(
        "lifetime",
        default=300,
        min=10,
        mutable=True,
        help="Seconds for which a signature is valid, by the clocks of sender and receiver. Set it above the time that "
        "messages normally wait in queues. An older message is refused, and the sweeper repeats its step.",
    ),
]
#: The latest valid time, in seconds since 1970: the year 4147.
_LAST_TIME = float(2**36)
#: By kind of agent, how it registers.
_PROGRAMS = {keyring.COMPUTE: "fleet-compute", keyring.VOLUME: "fleet-volume"}
#: Key of the signature in the message's context.
FIELD = "fleet_signature"
#: Key of the context with the user as it was signed: a copy of ``user``, and "" for none. Receivers of earlier releases sign
#: this key already; their senders leave it out, so the user of their messages is not signed.
_SIGNED_USER = "user_id"
#: Keys of the context that are signed; the others are for logs.
_SIGNED_CONTEXT = ("request_id", "project_id", _SIGNED_USER)
#: These too where a caller acts for a project, in what clients send: receivers of earlier releases know no such callers.
_SIGNED_OF_PROJECT = ("is_admin", "roles")
#: Methods that every key may call: they change nothing, and users have no agent's key.
_OPEN = {("baseapi", "ping"), (None, "describe_host")}
#: Methods by namespace; None: all of them.
_Methods = Mapping[str | None, frozenset[str] | None]
#: Of agents of both kinds; the argument ``binary`` says which kind.
_OF_AGENTS = frozenset({"register_services", "require_free", "leave", "report_state"})
#: By kind of agent, what it may call.
AGENT_TO_CONDUCTOR: Mapping[str, _Methods] = {
    keyring.COMPUTE: {
        None: _OF_AGENTS
        | {
            *("report_hosts", "get_host_instances", "compare_instances", "report_guest", "get_image", "get_boot_data"),
            "restart_guest",
            *("power_done", "claim_instance", "finish_build", "build_steps", "instance_destroyed"),
            *("get_attachments", "attachment_done"),
        },
        "compute_task": frozenset({"reschedule", "abort_build"}),
        "migration": frozenset(
            {"get_host_migrations", "claim_migration", "migration_done", "migration_copied", "migration_failed"}
        ),
    },
    keyring.VOLUME: {
        None: _OF_AGENTS,
        "volume": frozenset(
            {
                *("report_pools", "get_host_volumes", "get_removable_volumes", "volume_done", "volume_failed"),
                *("volume_measured", "volume_steps"),
            }
        ),
    },
}
_AGENT_TO_SCHEDULER: Mapping[str, _Methods] = {
    keyring.COMPUTE: {None: frozenset({"update_instance_info", "delete_instance_info", "sync_instance_info"})}
}
_CLIENT_TO_CONDUCTOR: _Methods = {"operator": None, "compute_task": frozenset({"create", "terminate_instances"})}
_CLIENT_TO_SCHEDULER: _Methods = {None: frozenset({"select_destinations", "explain", "capacity", "describe_filters"})}


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, GROUP)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]


def keys_of(conf: cfg.ConfigOpts) -> Keyring | None:
    """Return the configured keys; None if messages are not signed. :raises errors.ConfigError: the file cannot be used"""
    path = conf[GROUP].keys_file if GROUP in conf else ""
    return Keyring(path) if path else None


@dataclasses.dataclass(frozen=True)
class Letter:
    """The signed content. ``to`` is the topic, or ``topic.server``."""

    to: str
    namespace: str | None
    version: str | None
    method: str
    arguments: Mapping[str, object]

    def signature(self, key: Key, at: float, context: JSONMapping) -> str:
        said = [self.to, self.namespace, self.version, self.method, self.arguments]
        of_project = not context.get("is_admin", True) and _allows(_CLIENT_TO_CONDUCTOR, self.namespace, self.method)
        who = [context.get(name) for name in (*_SIGNED_CONTEXT, *(_SIGNED_OF_PROJECT if of_project else ()))]
        # Encoded twice: keys of mappings must be text before they are sorted.
        plain = jsonutils.loads(jsonutils.dumps([key.key_id, at, who, said]))
        text = jsonutils.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hmac.new(key.secret, text.encode(), hashlib.sha256).hexdigest()


@dataclasses.dataclass(frozen=True)
class Sealed:
    """A context with the signature of one message."""

    values: dict[str, object]

    def to_dict(self) -> dict[str, object]:
        return self.values


class Signer:
    """Signs with the process's own key. Messages to a host are signed with a key that its agent has, too."""

    def __init__(self, keys: Keyring, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def seal(self, context: Any, letter: Letter, host: str | None = None) -> object:
        """Return ``context`` with the signature of ``letter``."""
        key = self._keys.own() if host is None else self._keys.of_host(host, letter.to.partition(".")[0])
        values = context.to_dict()
        if key is None:
            LOG.debug("No key for host %s: %s is sent without a signature", host, letter.method)
            return context
        if key.project:
            values.update(project_id=key.project, is_admin=False)
        values[_SIGNED_USER] = values.get("user") or ""
        # Two equal messages of the same time need two signatures; the second would count as a replay.
        at = round(self._clock(), 3) + random.uniform(0, 0.001)
        values[FIELD] = {"key": key.key_id, "at": at, "mac": letter.signature(key, at, values)}
        return Sealed(values)


class Repeated(errors.NotTrusted):
    """The message is a replay. It is not answered: the caller waits for the answer to the first one."""


class Checker:
    """Checks the messages to ``topic`` and ``topic.server``."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        keys: Keyring,
        topic: str,
        server: str,
        clock: Callable[[], float] = time.time,
        record: replay_protection.Record | None = None,
    ) -> None:
        """:param record: of signatures, shared with the other servers of the topic; None: each remembers its own"""
        self._record = record
        self._memory = replay_protection.SeenSignatures()
        self._options = conf[GROUP]
        self._keys = keys
        self._topic = topic
        self._destinations = (topic, f"{topic}.{server}")
        self._clock = clock

    def check(self, context: JSONMapping, message: JSONMapping) -> None:
        """:raises errors.NotTrusted:"""
        namespace, method = message.get("namespace"), message.get("method")
        if (namespace, method) in _OPEN:
            return
        signature = context.get(FIELD)
        if signature is None:
            if self._options.required:
                raise errors.NotTrusted(reason=f"{method} is not signed")
            return
        key = self._key(signature, context, message)
        # An agent has only the keys that it shares with conductors.
        if key.whose != keyring.SERVICE and self._topic not in keyring.KINDS:
            self._require_right(key, context, namespace, method, message.get("args", {}))
        self._require_first(namespace, str(method), signature)

    def _require_first(self, namespace: str | None, method: str, signature: JSONMapping) -> None:
        """:raises errors.NotTrusted: the message came before"""
        mac, age_s, lifetime_s = str(signature["mac"]), self._clock() - signature["at"], self._options.lifetime
        if (namespace, method) in replay_protection.FRESH_ONLY and abs(age_s) > replay_protection.FRESH_S:
            raise errors.NotTrusted(
                reason=f"{method} was signed {age_s:.0f} s ago, at most {replay_protection.FRESH_S:g} are taken"
            )
        # Stored for as long as a sender with a fast clock could keep it valid.
        good_for_s = 2 * lifetime_s
        taken = self._memory.take(mac, self._clock(), good_for_s)
        if taken and self._record is not None and replay_protection.changes_something(namespace, method):
            taken = self._record.take(mac, good_for_s)
        if not taken:
            raise Repeated(reason=f"{method} was received before with the same signature")

    def _require_right(
        self,
        key: Key,
        context: Mapping[str, object],
        namespace: str | None,
        method: object,
        arguments: JSONMapping,
    ) -> None:
        """:raises errors.NotTrusted: the key is good for other messages only"""
        if not self._is_for(key, namespace, method):
            raise errors.NotTrusted(reason=f"key {key.key_id} of {key.whose} may not call {method}")
        if key.project and (context.get("is_admin", True) or context.get("project_id") != key.project):
            raise errors.NotTrusted(reason=f"{method} is of another project, key {key.key_id} is of {key.whose}")
        if key.project and grants.named(context.get("roles")):
            raise errors.NotTrusted(reason=f"{method} has a grant of fleet-api, key {key.key_id} is of {key.whose}")
        if key.agents:
            self._require_agents(key, namespace, str(method), arguments)

    def _require_agents(self, key: Key, namespace: str | None, method: str, arguments: JSONMapping) -> None:
        """:raises errors.NotTrusted: the message is about a host or backend that the key is not for"""
        registers = namespace is None and method in _OF_AGENTS
        for kind, hosts in spoken_for(arguments) if registers else ((None, hosts_named(arguments)),):
            if kind is not None and kind not in _PROGRAMS:
                raise errors.NotTrusted(reason=f"{method} speaks for {kind}, key {key.key_id} is of {key.whose}")
            known = self._hosts(key, namespace, method) if kind is None else key.agents.get(kind, frozenset())
            if strangers := hosts - known:
                what = f"host {min(strangers)}" if kind is None else f"host {min(strangers)} of {_PROGRAMS[kind]}"
                raise errors.NotTrusted(reason=f"{method} names {what}, key {key.key_id} is of {key.whose}")

    def _hosts(self, key: Key, namespace: str | None, method: str) -> frozenset[str]:
        """The hosts of the key whose agents may call the method."""
        return frozenset().union(
            *(key.agents[kind] for kind in key.agents if _allows(self._methods(kind), namespace, method))
        )

    def _methods(self, kind: str) -> _Methods:
        if self._topic in ("scheduler", "volume_scheduler"):
            return _AGENT_TO_SCHEDULER.get(kind, {})
        return AGENT_TO_CONDUCTOR[kind]

    def _key(self, signature: object, context: JSONMapping, message: JSONMapping) -> Key:
        """Return the key that signed. :raises errors.NotTrusted: the key is unknown, the signature is wrong or too old"""
        method = message.get("method")
        fields = signature if isinstance(signature, dict) else {}
        key, at, mac = self._keys.keys().get(str(fields.get("key"))), fields.get("at"), str(fields.get("mac"))
        if at is None or not _is_time(at):
            raise errors.NotTrusted(reason=f"{method} has no time of signature between 0 and {_LAST_TIME:.0f}")
        if key is None:
            raise errors.NotTrusted(
                reason=f"{method} is signed with key {str(fields.get('key'))[:40]}, which is unknown"
            )
        for to in self._destinations:
            letter = Letter(to, message.get("namespace"), message.get("version"), str(method), message.get("args", {}))
            if hmac.compare_digest(letter.signature(key, at, context).encode(), mac.encode()):
                break
        else:
            raise errors.NotTrusted(reason=f"the signature of {method} with key {key.key_id} is wrong")
        user = context.get("user") or ""
        if user != context.get(_SIGNED_USER, user):
            raise errors.NotTrusted(reason=f"{method} has another user than was signed with key {key.key_id}")
        age_s = self._clock() - at
        if abs(age_s) > self._options.lifetime:
            raise errors.NotTrusted(reason=f"{method} was signed {age_s:.0f} s ago with key {key.key_id}")
        return key

    def _is_for(self, key: Key, namespace: str | None, method: object) -> bool:
        if key.agents:
            return any(_allows(self._methods(kind), namespace, method) for kind in key.agents)
        if self._topic in ("scheduler", "volume_scheduler"):
            # The answers of schedulers name hosts.
            return not key.project and _allows(_CLIENT_TO_SCHEDULER, namespace, method)
        return _allows(_CLIENT_TO_CONDUCTOR, namespace, method)


def _allows(methods: _Methods, namespace: str | None, method: object) -> bool:
    allowed = methods.get(namespace, frozenset())
    return allowed is None or method in allowed


def _is_time(at: object) -> bool:
    """Return True for seconds since 1970 in a sane range: not NaN, and not so large that arithmetic overflows."""
    return isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at <= _LAST_TIME


def spoken_for(arguments: JSONMapping) -> list[tuple[str | None, set[str]]]:
    """The hosts of a registration or a heartbeat by kind of agent. What is none has its program or topic as its kind.

    None if the message does not say: the method then refuses it.
    """
    found: list[tuple[str | None, set[str]]] = []
    if arguments.get("binary") is not None or "hosts" in arguments:
        found.append((_kind(arguments.get("binary"), None), hosts_named(arguments)))
    for record in _each(arguments.get("services")):
        if isinstance(record, dict) and record.get("host") is not None:
            found.append((_kind(record.get("binary"), record.get("topic")), {str(record["host"])}))
    return found


def _kind(binary: object, topic: object) -> str | None:
    if binary is None:
        return None
    kind = next((kind for kind, program in _PROGRAMS.items() if program == binary), str(binary))
    return kind if topic in (None, kind) or kind not in _PROGRAMS else f"topic {topic}"


def hosts_named(arguments: JSONMapping) -> set[str]:
    """Return the hosts that an agent's message speaks for. Hosts that it only mentions (alternates) are not among them."""
    named = [arguments.get("host"), arguments.get("host_name"), *_each(arguments.get("hosts"))]
    for name in ("services", "reports", "steps", "instance_info"):
        named += [record.get("host") for record in _each(arguments.get(name)) if isinstance(record, dict)]
    for name in ("nodes", "alarms", "held", "power", "pools", "copies"):
        by_host = arguments.get(name)
        named += list(by_host) if isinstance(by_host, dict) else []
    return {str(host) for host in named if host is not None}


def _each(value: object) -> Iterable[object]:
    """Return a list: a single record stands for a list of one."""
    if isinstance(value, dict):
        return (value,)
    return value if isinstance(value, list | tuple) else ()
