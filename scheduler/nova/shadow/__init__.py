# SPDX-License-Identifier: Apache-2.0
"""``fleet-scheduler --shadow``: decides the requests that nova-scheduler answers, and compares. It writes, claims and
answers nothing.

Read :mod:`scheduler.why.shadow`, then ``shadow`` (the copy of one request) and ``service``.
"""
