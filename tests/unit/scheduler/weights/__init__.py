# SPDX-License-Identifier: Apache-2.0
"""What every weigher makes of hosts, and whose multiplier counts."""
