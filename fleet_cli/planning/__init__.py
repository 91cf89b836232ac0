# SPDX-License-Identifier: Apache-2.0
"""Commands about decisions that were or would be made: ``explain``, ``capacity``, ``whatif``, ``rebalance`` and ``replay``.

They change nothing, but ``rebalance --apply`` and ``replay``.
"""
