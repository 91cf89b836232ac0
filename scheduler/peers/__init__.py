# SPDX-License-Identifier: Apache-2.0
"""The other schedulers of a fleet: ``registration`` writes the heartbeat of this one, ``neighbours`` reads theirs."""
