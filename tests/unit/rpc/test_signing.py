# SPDX-License-Identifier: Apache-2.0
"""A message is taken from who signed it, for the hosts of its key, and not for ever."""

from __future__ import annotations

import copy
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from oslo_serialization import jsonutils

from fleet import errors
from fleet.context import new_context
from fleet.rpc.trust import grants, keyring, replay_protection, signing
from tests.configuration import configuration

SECRETS = {name: name * 32 for name in "abcs"}
SERVICE, A, B, CLIENT = (
    f"conductors service {SECRETS['s']}",
    f"agent-a compute:a1,a2 {SECRETS['a']}",
    f"agent-b compute:b1 {SECRETS['b']}",
    f"people client {SECRETS['c']}",
)
V, OLD = f"storage volume:v1@a {'v' * 32}", f"old host:a3,v2@a {'o' * 32}"
HYPERVISOR = {"host": "v1@a", "binary": "fleet-compute", "topic": "compute"}
NEW_A = f"agent-a-2 host:a1,a2 {'n' * 32}"
PROJECT = f"scripts project:web {'p' * 32}"
CONDUCTORS = (SERVICE, A, B, V, OLD, CLIENT, PROJECT)


class Post:
    """Keys in files, one clock, and what arrives of a message once it has been JSON."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self.now = 1000.0
        self.conf = configuration(signing.register_opts)
        #: Of the caller.
        self.is_admin = True
        self.roles: list[str] = []
        self.user: str | None = "u1"

    def keys(self, *lines: str, name: str = "keys") -> keyring.Keyring:
        path = self._directory / name
        path.write_text("# ours\n\n" + "\n".join(lines))
        path.chmod(0o600)
        return keyring.Keyring(str(path), clock=lambda: self.now)

    def letter(
        self,
        sender: str,
        method: str = "report_state",
        namespace: str | None = None,
        to: str = "conductor",
        **said: Any,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The context and the message, signed with the key of the line ``sender``."""
        message = {"method": method, "namespace": namespace, "version": "1.0", "args": said}
        letter = signing.Letter(to, namespace, "1.0", method, said)
        host = to.partition(".")[2] or None
        context = new_context("p1", self.user)
        context.is_admin, context.roles = self.is_admin, self.roles
        sealed = signing.Signer(self.keys(sender, name="sender"), lambda: self.now).seal(context, letter, host)
        return jsonutils.loads(jsonutils.dumps([sealed.to_dict(), message]))

    def said_to(
        self,
        letter: tuple[dict[str, Any], dict[str, Any]],
        topic: str = "conductor",
        server: str = "c1",
        keys: tuple[str, ...] = CONDUCTORS,
    ) -> str:
        """Why it is refused, or "taken"."""
        try:
            signing.Checker(self.conf, self.keys(*keys), topic, server, lambda: self.now).check(*letter)
        except errors.NotTrusted as refusal:
            return refusal.reason
        return "taken"


@pytest.fixture
def post(tmp_path: pathlib.Path) -> Post:
    return Post(tmp_path)


LETTERS: list[tuple[str, Callable[[Post], Any], str]] = [
    ("its own hosts", lambda post: post.letter(A, hosts=["a1", "a2"]), "taken"),
    ("its own claim", lambda post: post.letter(A, "claim_instance", host="a1"), "taken"),
    (
        "another's claim",
        lambda post: post.letter(A, "claim_instance", host="b1"),
        "claim_instance names host b1, key agent-a",
    ),
    ("its own steps", lambda post: post.letter(A, "build_steps", steps=[{"host": "a1"}, {"host": "a2"}]), "taken"),
    ("another's step", lambda post: post.letter(A, "build_steps", steps=[{"host": "a1"}, {"host": "b1"}]), "host b1"),
    ("its volume", lambda post: post.letter(V, "volume_done", "volume", host="v1@a", volume_uuid="u"), "taken"),
    ("another's volume", lambda post: post.letter(V, "volume_done", "volume", host="b1"), "host b1"),
    ("steps of its volumes", lambda post: post.letter(V, "volume_steps", "volume", steps=[{"host": "v1@a"}]), "taken"),
    ("a step of another's", lambda post: post.letter(V, "volume_steps", "volume", steps=[{"host": "b1"}]), "host b1"),
    ("another's pools", lambda post: post.letter(V, "report_pools", "volume", reports=[], pools={"b1": []}), "host b1"),
    ("a host's volume", lambda post: post.letter(A, "volume_done", "volume", host="a1"), "key agent-a of"),
    ("a backend's claim", lambda post: post.letter(V, "claim_instance", host="v1@a"), "key storage of"),
    ("a backend's heartbeat", lambda post: post.letter(V, binary="fleet-volume", hosts=["v1@a"]), "taken"),
    (
        "a backend as a hypervisor",
        lambda post: post.letter(V, "register_services", services=[HYPERVISOR]),
        "names host",
    ),
    ("a backend beats as one", lambda post: post.letter(V, binary="fleet-compute", hosts=["v1@a"]), "names host v1@a"),
    ("a host as a backend", lambda post: post.letter(A, binary="fleet-volume", hosts=["a1"]), "names host a1"),
    ("how far a copy is", lambda post: post.letter(A, "migration_copied", "migration", host="a1"), "taken"),
    ("an old key of a backend", lambda post: post.letter(OLD, "volume_done", "volume", host="v2@a"), "taken"),
    ("an old key of a host", lambda post: post.letter(OLD, "claim_instance", host="a3"), "taken"),
    ("an old key mixed up", lambda post: post.letter(OLD, "claim_instance", host="v2@a"), "names host v2@a"),
    (
        "a conductor's work",
        lambda post: post.letter(A, "place_volume", "volume", volume_uuid="u"),
        "may not call place_volume",
    ),
    ("another's heartbeat", lambda post: post.letter(A, hosts=["a1", "b1"]), "names host b1"),
    ("another's name", lambda post: post.letter(A, "register_services", services=[{"host": "b1"}]), "names host b1"),
    ("another's inventory", lambda post: post.letter(A, "report_hosts", reports=[{"host": "b1"}], nodes={}), "host b1"),
    ("another's nodes", lambda post: post.letter(A, "report_hosts", reports=[], nodes={"b1": []}), "names host b1"),
    ("another's alarm", lambda post: post.letter(A, "report_hosts", nodes={}, alarms={"b1": ""}), "names host b1"),
    ("another's guests", lambda post: post.letter(A, "compare_instances", held={"b1": []}), "names host b1"),
    (
        "alternates are not its own",
        lambda post: post.letter(A, "reschedule", "compute_task", host="a1", alternates=[{"host": "b1"}]),
        "taken",
    ),
    ("another's move", lambda post: post.letter(A, "migration_done", "migration", host="b1"), "names host b1"),
    ("an agent deletes", lambda post: post.letter(A, "terminate_instances", "compute_task"), "key agent-a of"),
    ("an agent commands", lambda post: post.letter(A, "force_down", "operator", host="a1"), "key agent-a of"),
    ("a person commands", lambda post: post.letter(CLIENT, "force_down", "operator", host="b1"), "taken"),
    ("a person boots", lambda post: post.letter(CLIENT, "create", "compute_task", request={}), "taken"),
    ("a person claims", lambda post: post.letter(CLIENT, "claim_instance", host="b1"), "key people of"),
    ("a project boots", lambda post: post.letter(PROJECT, "create", "compute_task", request={}), "taken"),
    ("a project asks", lambda post: post.letter(PROJECT, "list_instances", "operator"), "taken"),
    ("a project claims", lambda post: post.letter(PROJECT, "claim_instance", host="b1"), "key scripts of"),
    ("a conductor", lambda post: post.letter(SERVICE, "build_instances", "compute_task", attempt=1), "taken"),
    ("a key that nobody knows", lambda post: post.letter(NEW_A, hosts=["a1"]), "key agent-a-2, which is unknown"),
    ("a known key's name", lambda post: post.letter(f"agent-a host:a1 {'x' * 32}"), "with key agent-a is wrong"),
]


@pytest.mark.parametrize(("what", "letter", "expected"), LETTERS, ids=[case[0] for case in LETTERS])
def test_what_a_conductor_takes(post: Post, what: str, letter: Callable[[Post], Any], expected: str) -> None:
    """An agent speaks for its hosts, a person for nobody, a service for all."""
    assert expected in post.said_to(letter(post))


@pytest.mark.parametrize(("host", "expected"), [("a2", "taken"), ("b1", "update_instance_info names host b1")])
def test_what_a_scheduler_takes(post: Post, host: str, expected: str) -> None:
    """An agent tells of its own guests, host by host or together."""
    letter = post.letter(A, "update_instance_info", to="scheduler", instance_info=[{"host": "a1"}, {"host": host}])
    assert expected in post.said_to(letter, "scheduler")


def test_a_project_asks_no_scheduler(post: Post) -> None:
    """The answers name hosts."""
    letter = post.letter(PROJECT, "explain", to="scheduler")
    assert "key scripts of" in post.said_to(letter, "scheduler")


def test_a_key_of_a_project_is_good_for_this_project(post: Post) -> None:
    """The signer says so in the context by itself; another project, and the administrator, are refused."""
    context, _message = post.letter(PROJECT, "list_instances", "operator")
    assert ("web", False) == (context["project_id"], context["is_admin"])
    other = f"scripts project:shop {'p' * 32}"
    refused = post.said_to(post.letter(other, "list_instances", "operator"))
    assert "list_instances is of another project, key scripts is of project:web" == refused


@pytest.mark.parametrize("change", [{"is_admin": True}, {"roles": ["admin"]}, {"project_id": "web"}])
def test_who_acts_for_a_project_cannot_become_another(post: Post, change: dict[str, Any]) -> None:
    """The mark, the roles and the project are signed with the message."""
    post.is_admin = False
    context, message = post.letter(CLIENT, "list_instances", "operator")
    assert "taken" == post.said_to((context, message))
    assert "is wrong" in post.said_to(({**context, **change}, message))


def test_a_key_of_a_project_grants_nothing(post: Post) -> None:
    """Only fleet-api does, whose key acts for all projects."""
    post.roles = ["member", grants.FREE_CHOICE]
    letter = post.letter(PROJECT, "create", "compute_task", request={})
    assert "create has a grant of fleet-api, key scripts is of project:web" == post.said_to(letter)
    assert "taken" == post.said_to(post.letter(CLIENT, "create", "compute_task", request={}))


CHANGES: list[tuple[str, Callable[[dict[str, Any], dict[str, Any]], object]]] = [
    ("an argument", lambda _context, message: message["args"].update(hosts=["a2"])),
    ("one more", lambda _context, message: message["args"].update(more=1)),
    ("the method", lambda _context, message: message.update(method="leave")),
    ("the version", lambda _context, message: message.update(version="1.1")),
    ("the project", lambda context, _message: context.update(project_id="p2")),
    ("the time", lambda context, _message: context[signing.FIELD].update(at=2000.0)),
    ("the key", lambda context, _message: context[signing.FIELD].update(key="agent-b")),
    ("the signature's form", lambda context, _message: context[signing.FIELD].update(mac=None)),
    ("the signature's place", lambda context, _message: context.update({signing.FIELD: [1]})),
]


@pytest.mark.parametrize(("what", "change"), CHANGES, ids=[case[0] for case in CHANGES])
def test_what_was_changed_on_the_way_is_refused(post: Post, what: str, change: Callable[..., object]) -> None:
    """A change of any signed part is refused; the unchanged message is accepted."""
    letter = post.letter(A, hosts=["a1"])
    changed = copy.deepcopy(letter)
    change(*changed)
    assert "taken" == post.said_to(letter)
    assert "taken" != post.said_to(changed)


AGES = [("at once", 0, "taken"), ("late", 299, "taken"), ("too late", 301, "301 s ago"), ("early", -301, "-301 s ago")]


@pytest.mark.parametrize(("what", "age_s", "expected"), AGES, ids=[case[0] for case in AGES])
def test_a_signature_is_not_good_for_ever(post: Post, what: str, age_s: float, expected: str) -> None:
    """As long as a message may wait; and clocks may differ by as much."""
    letter = post.letter(A, "compare_instances", held={"a1": []})
    post.now += age_s
    assert expected in post.said_to(letter)


ORDERS = [
    ("to its host", "compute.a1", "a1", "taken"),
    ("to another host of the same key", "compute.a2", "a1", "is wrong"),
]


@pytest.mark.parametrize(("what", "to", "server", "expected"), ORDERS, ids=[case[0] for case in ORDERS])
def test_an_agent_takes_orders_for_its_host(post: Post, what: str, to: str, server: str, expected: str) -> None:
    """Signed with the key that it shares with conductors; one for another host is not for it."""
    order = post.letter(A, "terminate_instance", to=to, instance_uuid="u")
    assert expected in post.said_to(order, "compute", server, (A,))


def test_a_host_without_a_key_gets_what_is_not_signed(post: Post) -> None:
    """The host refuses it, unless the method needs no signature."""
    signer = signing.Signer(post.keys(SERVICE))
    context = signer.seal(new_context(), signing.Letter("compute.b1", None, "1.0", "describe_host", {}), "b1")
    answers = [
        post.said_to((context.to_dict(), {"method": method, "args": {}}), "compute", "b1", (B,))
        for method in ("describe_host", "terminate_instance")
    ]
    assert ["taken", "terminate_instance is not signed"] == answers


def test_unsigned_messages_are_taken_while_keys_are_handed_out(post: Post) -> None:
    """With required off; what is signed wrongly is refused even then."""
    letter = post.letter(A, hosts=["a1"])
    unsigned = ({}, letter[1])
    assert "report_state is not signed" == post.said_to(unsigned)
    post.conf.set_override("required", False, group="message_signing")
    assert "taken" == post.said_to(unsigned)
    assert "names host b1" in post.said_to(post.letter(A, hosts=["b1"]))


@pytest.mark.parametrize("user", ["u1", None])
def test_the_user_is_signed(post: Post, user: str | None) -> None:
    """Neither another one nor a first one takes its place."""
    post.user = user
    assert "taken" == post.said_to(post.letter(CLIENT, "list_acts", "operator"))
    for changes in ({"user": "u2"}, {"user": None, "user_id": "u2"}, {"user": "u2", "user_id": "u2"}):
        context, message = post.letter(CLIENT, "list_acts", "operator")
        assert "taken" != post.said_to(({**context, **changes}, message))
    context, message = post.letter(CLIENT, "list_acts", "operator")
    context.pop("user_id")
    assert "is wrong" in post.said_to(({**context, "user": "u2"}, message))


def test_a_sender_of_an_earlier_release_does_not_sign_the_user(post: Post) -> None:
    """Its messages are accepted, and its receivers accept the messages of this release: the formula is the same."""
    context, message = post.letter(CLIENT, "list_acts", "operator")
    letter = signing.Letter("conductor", "operator", "1.0", "list_acts", message["args"])
    key, signature = post.keys(CLIENT, name="earlier").own(), context.pop(signing.FIELD)
    assert signature["mac"] == letter.signature(key, signature["at"], {**context, signing.FIELD: signature})
    context.pop("user_id")
    signature["mac"] = letter.signature(key, signature["at"], context)
    assert "taken" == post.said_to(({**context, signing.FIELD: signature}, message))


def test_keys_are_changed_one_side_after_the_other(post: Post) -> None:
    """Conductors learn the new one first, then the agent signs with it, then the old one goes."""
    both = (SERVICE, A, NEW_A)
    assert ["taken", "taken"] == [post.said_to(post.letter(each, hosts=["a1"]), keys=both) for each in (A, NEW_A)]
    assert "which is unknown" in post.said_to(post.letter(A, hosts=["a1"]), keys=(SERVICE, NEW_A))


def test_a_changed_file_is_read_again(post: Post, tmp_path: pathlib.Path, caplog: Any) -> None:
    """Soon; one that cannot be used is named once, and the keys stay."""
    caplog.set_level("INFO")
    keys = post.keys(A)
    for text, stamp in ((f"{NEW_A}\n{A}", 1), ("nonsense", 2)):
        (tmp_path / "keys").write_text(text)
        os.utime(tmp_path / "keys", ns=(stamp, stamp))
        for _look in range(3):
            post.now += keyring.LOOK_EVERY_S
            keys.keys()
    assert ("agent-a-2", 2) == (keys.own().key_id, len(keys.keys()))
    first, second = caplog.messages
    assert "Signing messages with key agent-a-2 now; 2 keys are loaded" in first
    assert "keys, line 1: is not ID WHOSE SECRET" in second


FILES = [
    ("nothing", "# none\n", "has no key"),
    ("too few words", "agent-a host:a1\n", "line 1: is not ID WHOSE SECRET"),
    ("the same twice", f"{A}\n{A}", "line 2: key agent-a is there already"),
    (
        "of nobody",
        f"x nobody {'x' * 32}",
        "nobody is none of service, client, project:NAME, compute:HOST, volume:BACKEND",
    ),
    ("of no host", f"x host: {'x' * 32}", "host: is none of"),
    ("too short", "x service secret", "the secret is shorter than 32 characters"),
]


@pytest.mark.parametrize(("what", "text", "expected"), FILES, ids=[case[0] for case in FILES])
def test_a_file_that_cannot_be_used(what: str, text: str, expected: str) -> None:
    """The option, the file and the line are named; the secret is not."""
    with pytest.raises(errors.ConfigError, match="Option \\[message_signing\\] keys_file names keys") as refused:
        keyring.parse(text, "keys")
    assert expected in refused.value.message
    assert "x" * 32 not in refused.value.message


def test_a_file_that_is_not_there() -> None:
    """Named, with the system's reason."""
    with pytest.raises(errors.ConfigError, match="/nowhere, which cannot be read: No such file"):
        keyring.Keyring("/nowhere")


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1, 1e300, 10**400, True, "1000"], ids=repr)
def test_a_time_that_is_none_is_refused(post: Post, at: object) -> None:
    """It is signed like that: NaN would never expire, and a huge number overflows."""
    message = {"method": "report_state", "namespace": None, "version": "1.0", "args": {"hosts": ["a1"]}}
    key = post.keys(A, name="sender").own()
    letter = signing.Letter("conductor", None, "1.0", "report_state", message["args"])  # type: ignore[arg-type]
    context = {signing.FIELD: {"key": key.key_id, "at": at, "mac": letter.signature(key, at, {})}}  # type: ignore[arg-type]
    assert "has no time of signature" in post.said_to((context, message))


OTHERS = [
    ("report_state", {"hosts": ["a1"], "binary": "fleet-conductor"}, "speaks for fleet-conductor"),
    ("leave", {"hosts": ["a1"], "binary": "fleet-scheduler"}, "speaks for fleet-scheduler"),
    ("register_services", {"services": [{"host": "a1", "binary": "fleet-conductor"}]}, "speaks for fleet-conductor"),
    (
        "register_services",
        {"services": [{"host": "a1", "binary": "fleet-compute", "topic": "conductor"}]},
        "topic conduct",
    ),
    ("register_services", {"services": [{"host": "a1", "binary": "fleet-compute", "topic": "compute"}]}, "taken"),
]


@pytest.mark.parametrize(("method", "said", "expected"), OTHERS)
def test_an_agent_speaks_for_agents_only(post: Post, method: str, said: dict[str, Any], expected: str) -> None:
    """Its key names hosts, on which conductors and schedulers may run, too."""
    assert expected in post.said_to(post.letter(A, method, **said))


def test_one_record_is_looked_at_as_a_list_is(post: Post) -> None:
    """A hint about one instance may come without a list."""
    letter = post.letter(A, "update_instance_info", to="scheduler", instance_info={"host": "b1"})
    assert "names host b1" in post.said_to(letter, "scheduler")


class Record:
    """Shared by two conductors."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def take(self, signature: str, good_for_s: float) -> bool:
        first = signature not in self.taken
        self.taken.add(signature)
        return first


REPEATED = [
    (CLIENT, "create", "compute_task", False),
    (CLIENT, "force_down", "operator", False),
    (CLIENT, "update_service", "operator", False),
    (CLIENT, "set_aggregate_metadata", "operator", False),
    (CLIENT, "resize_instance", "operator", False),
    (CLIENT, "list_instances", "operator", True),
    (SERVICE, "register_services", None, False),
    (SERVICE, "place_migration", "migration", True),
]


@pytest.mark.parametrize(("key", "method", "namespace", "by_another"), REPEATED, ids=[case[1] for case in REPEATED])
def test_a_message_is_taken_once(post: Post, key: str, method: str, namespace: str | None, by_another: bool) -> None:
    """By one conductor whatever it is; by another one only if it changes nothing, or a row that has moved on."""
    record, letter = Record(), post.letter(key, method, namespace)
    conductors = [
        signing.Checker(post.conf, post.keys(*CONDUCTORS), "conductor", "c1", lambda: post.now, record)
        for _number in range(2)
    ]
    conductors[0].check(*letter)
    with pytest.raises(errors.NotTrusted, match="was received before"):
        conductors[0].check(*letter)
    if by_another:
        conductors[1].check(*letter)
    else:
        with pytest.raises(errors.NotTrusted, match="was received before"):
            conductors[1].check(*letter)
    # The same words, sent again by their sender, are another message.
    conductors[0].check(*post.letter(key, method, namespace))


def test_an_old_heartbeat_keeps_nobody_alive(post: Post) -> None:
    """It is neither recorded nor a step of a row."""
    letter = post.letter(A, hosts=["a1"])
    post.now += replay_protection.FRESH_S + 1
    assert "at most 20 are taken" in post.said_to(letter)


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """By time, and by number."""
    memory = replay_protection.SeenSignatures()
    assert (True, False, True) == tuple(memory.take("one", now, 10.0) for now in (0.0, 5.0, 11.0))
    monkeypatch.setattr(replay_protection, "MOST", 3)
    assert all(memory.take(str(number), 12.0, 10.0) for number in range(50))
    assert 3 >= len(memory._until)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_may_use(tmp_path: pathlib.Path, mode: int) -> None:
    """The mode is named, and what to do."""
    path = tmp_path / "keys"
    path.write_text(SERVICE)
    path.chmod(mode)
    with pytest.raises(errors.ConfigError, match=f"mode {mode:04o}.*chmod 0600"):
        keyring.Keyring(str(path))
