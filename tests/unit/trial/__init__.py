# SPDX-License-Identifier: Apache-2.0
"""Trial fleets and request traces."""
