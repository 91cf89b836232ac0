# SPDX-License-Identifier: Apache-2.0
"""Calm balancing of aggregates: few moves, of a lasting imbalance only, and a record of each round.

``fleet.balance_states`` draws the life of a round. Read ``deciding`` (a function of what was seen), then ``reading`` (loads
of hosts and guests), ``trying`` (a round and its record), ``keeper`` (what each conductor does every few seconds) and
``manager`` (what operators call).

All that is known is in rows: the conductor that takes a look writes so first, and any conductor goes on with the moves.
"""
