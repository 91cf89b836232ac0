# SPDX-License-Identifier: Apache-2.0
"""Virtual machines as a domain of the engine.

Read ``domain`` first, then ``filters`` and ``weights`` (the plugins), ``drivers`` (what serves requests), ``tolerance`` (the
room that promises keep), ``manager`` (the RPC surface), ``service`` (the wiring) and ``planning`` (what-if and rebalancing).
``conf`` has the options.
"""
