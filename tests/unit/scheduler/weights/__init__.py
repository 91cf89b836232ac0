# SPDX-License-Identifier: Apache-2.0
"""The raw weights of every weigher, and the order of precedence of multipliers."""
