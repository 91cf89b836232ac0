# SPDX-License-Identifier: Apache-2.0
"""Work that the fleet does by itself for its operators, and the promises that it keeps meanwhile.

``recoveries`` of hosts that are down, ``maintenances`` in waves, ``balances`` of aggregates, ``tolerances`` of losses.
"""
