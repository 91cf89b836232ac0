# SPDX-License-Identifier: Apache-2.0
"""Recovery of hosts that are down, without an operator: fence the host, then evacuate its guests as ordinary moves.

``fleet.recovery_states`` draws the life of a recovery. Read ``keeper`` (what each conductor does every few seconds), then
``watch`` (which hosts are down, and when so many are that nothing is done), ``fencing``, ``evacuation``, ``returning``,
``order`` and ``manager`` (what operators call).

All that is known is in rows, so any conductor goes on with what another one has begun. A fence has a *lease*: a token and a
time, by the database's clock. An evacuation has a record whose uuid the guest's row keeps.
"""
