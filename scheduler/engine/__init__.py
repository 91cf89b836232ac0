# SPDX-License-Identifier: Apache-2.0
"""What places anything, and knows nothing of virtual machines: table, candidates, filters and weighers run, decision."""
