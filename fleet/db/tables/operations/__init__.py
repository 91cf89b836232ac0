# SPDX-License-Identifier: Apache-2.0
"""Tables of work that the fleet does by itself for its operators, of its promises, and of what administrators did."""
