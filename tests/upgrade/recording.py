# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.upgrade.recording``: records what this release leaves to later ones, in a directory with its version.

Run it once, at the commit of the release. The ledger is that of :mod:`tests.hostile.objects`, the messages are those of
:mod:`tests.hostile.calls`, each sent by whoever may send it.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile

import oslo_messaging
import sqlalchemy as sa

from fleet import errors
from fleet.clock import utcnow
from fleet.db.schema import schema
from fleet.rpc import versions
from tests.hostile import objects, test_calls, world
from tests.hostile.calls import Method, whose
from tests.hostile.objects import Objects
from tests.hostile.people import BACKENDS, HOSTS, OWNER
from tests.hostile.world import HostileWorld, context_of, contract_of, refusal_of
from tests.upgrade import release
from tests.upgrade.release import Ledger, Message


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, world.opened(pathlib.Path(directory)) as made:
        _ours, theirs = objects.build(made)
        _more(made, theirs)
        url = f"sqlite:///{directory}/fleet.db"
        with sa.create_engine(url).connect() as connection:
            kept = Ledger(schema.latest(), utcnow(), release.read_rows(connection))
        served = test_calls.served(made)
        sent = [
            dataclasses.replace(asked, outcome=outcome_of(made, asked))
            for method in test_calls.METHODS
            for topic, parameters in sorted(served[method].items())
            for asked in [_message(theirs, topic, method, parameters)]
        ]
    release.write(versions.release(), kept, sent)


def _more(made: HostileWorld, theirs: Objects) -> None:
    """Leave what the objects have not: a quota, the fault of a build that failed, and the versions of the agents."""
    for topic, binary, names in (("compute", "fleet-compute", HOSTS), ("volume", "fleet-volume", BACKENDS)):
        for name in names:
            said = {"binary": binary, "hosts": [name], "incarnation": "one", **versions.spoken(topic)}
            context = context_of(None, None, True)
            made.call(name, context, "conductor", None, "report_state", said, versions.CURRENT["conductor"])
    for method in (Method("operator", "set_quota"), Method("compute_task", "abort_build")):
        call(made, _message(theirs, "conductor", method, test_calls.served(made)[method]["conductor"]))


def _message(theirs: Objects, topic: str, method: Method, parameters: dict[str, bool]) -> Message:
    sender = test_calls.RIGHTFUL[whose(topic, method) or ""]
    given = test_calls.attempts(theirs, sender, topic, method, parameters)[0]
    # The newest that is served, but for the one namespace that has versions of its own.
    version = "" if method.namespace == "baseapi" else versions.CURRENT[contract_of(topic, method.namespace)]
    said = (sender.holder, sender.project, OWNER.name, sender.is_admin)
    return Message(*said, topic, method.namespace, method.name, version, given, outcome="")


def call(made: HostileWorld, asked: Message) -> None:
    """:raises Exception: what the method raises"""
    context = context_of(asked.project, asked.user, asked.is_admin)
    made.call(asked.holder, context, asked.topic, asked.namespace, asked.method, asked.arguments, asked.version)


def outcome_of(made: HostileWorld, asked: Message) -> str:
    """Return the name of the error that the message meets in this world, or "". The ledger stays as it was."""
    with made.undone():
        try:
            call(made, asked)
        except (errors.FleetError, oslo_messaging.RemoteError) as failure:
            return refusal_of(failure).removesuffix("_Remote")
    return ""


if __name__ == "__main__":
    main()
