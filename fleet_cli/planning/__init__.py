# SPDX-License-Identifier: Apache-2.0
"""What would happen, and why: ``explain``, ``capacity``, ``whatif``, ``rebalance`` and ``replay``.

They change nothing, but ``rebalance --apply`` and ``replay``.
"""
