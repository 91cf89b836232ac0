# SPDX-License-Identifier: Apache-2.0
"""``fleet-scheduler --shadow``: decides the requests that nova-scheduler answers, and compares. It writes, claims and
answers nothing.

Read ``verdict`` (what would be chosen for a request, and why not others), ``outcome`` (how that compares with where nova
put the server), ``ledger`` (verdicts that wait for their server, and the sums), ``shadow`` (the wiring of one request), and
``service``.
"""
