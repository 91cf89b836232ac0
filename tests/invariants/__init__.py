# SPDX-License-Identifier: Apache-2.0
"""What must hold whatever happened, judged from outside: the database, the agents' answers, the drivers' own records.

``ledger`` reads the database with SQL of its own, ``drivers`` the records of the fake hypervisors; ``moment`` holds what
is true at every instant, ``rest`` what is true when nothing moves, ``storage`` both for volumes and pools. A check is a
function that yields a sentence for each violation; it is filed under the invariant's number (``I1`` … ``I17``;
``docs/chaos.md`` lists them).

``python -m tests.invariants DATABASE_URL`` judges a running system once, by its database alone.
"""
