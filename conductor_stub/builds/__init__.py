# SPDX-License-Identifier: Apache-2.0
"""Builds: an accepted instance goes from ``scheduling`` to ``active`` or ``error``. ``fleet.states`` draws its life.

Read ``intake`` (a request is accepted and its rows are written), ``local_placement`` (the threads of the conductor that
accepted it), ``placement`` (the scheduler is called, the order is cast to the chosen host), ``claims`` (the host claims
and finishes), ``failures`` (an attempt fails: the next alternate, the scheduler again, or ERROR), ``refusals`` (the
scheduler has no host), ``sweeper`` (steps that are overdue), ``termination`` (an instance is deleted). ``avoidance``
lists the hosts that the next attempt leaves out; ``client_token`` makes a repeated request safe.
"""
