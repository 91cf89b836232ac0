# SPDX-License-Identifier: Apache-2.0
"""Every failpoint there is, in the order in which a build passes them, and what has just happened there."""

from __future__ import annotations

from collections.abc import Mapping

BEFORE_COMMIT = "before_commit"
AFTER_COMMIT = "after_commit"

#: Transactions: each has a point before its commit and one after it.
TRANSACTIONS: Mapping[str, str] = {
    "conductor.accept": "the request and its instances are written",
    "conductor.take": "a conductor has taken waiting builds: scheduling → placing",
    "conductor.put_back": "the scheduler did not answer: placing → scheduling",
    "conductor.fail": "no host was found: ERROR with a fault",
    "conductor.claim": "the host's claim is recorded: placing → spawning, with usage",
    "conductor.finish": "the guest runs: spawning → active",
    "conductor.reschedule": "an attempt has failed: its claim is given back, the next begins or ERROR",
    "conductor.abort": "the build cannot succeed anywhere: ERROR with a fault",
    "conductor.terminate": "an instance is marked as going, or deleted at once",
    "conductor.destroyed": "the guest is gone: deleted, usage given back",
    "conductor.postpone": "the sweeper has taken a lost build to hand it out again",
    "conductor.time_out": "the build's deadline has passed: ERROR with a fault",
}

#: Between transactions.
STEPS: Mapping[str, str] = {
    "conductor.hand_out.before": "accepted builds are about to be cast to a worker",
    "conductor.hand_out.after": "they were cast",
    "conductor.select.before": "the scheduler is about to be asked",
    "conductor.select.after": "it has answered",
    "conductor.cast.before": "a build is about to be cast to its host",
    "conductor.cast.after": "it was cast",
    "scheduler.refresh.before": "changes are about to be read from the database",
    "scheduler.decide.before": "the request is understood and the cache is fresh",
    "scheduler.decide.after": "the hosts are chosen and booked, the answer is not sent",
    "agent.order.before": "a build order has arrived and is not yet queued",
    "agent.claim.before": "a build has its slot, nothing is held",
    "agent.claim.after": "the host holds the claim, the ledger does not know it",
    "agent.record.after": "the ledger has the claim, the guest does not exist",
    "agent.spawn.before": "the driver is about to spawn",
    "agent.spawn.after": "the guest runs, the ledger does not know it",
    "agent.finish.after": "the instance is active, the agent has not ended its work",
    "agent.hand_back.before": "an attempt has failed and its claim is given back here, the ledger does not know it",
    "agent.hand_back.after": "the ledger knows it",
    "agent.destroy.before": "a guest is about to be destroyed",
    "agent.destroy.after": "it is gone, the ledger does not know it",
}

NAMES: Mapping[str, str] = {
    **{f"{step}.{BEFORE_COMMIT}": f"{what}; not committed" for step, what in TRANSACTIONS.items()},
    **{f"{step}.{AFTER_COMMIT}": f"{what}; committed, nobody told" for step, what in TRANSACTIONS.items()},
    **STEPS,
}
