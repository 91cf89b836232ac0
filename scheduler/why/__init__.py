# SPDX-License-Identifier: Apache-2.0
"""Reasons: refusals, near misses, shortfalls, explanations, the log of decisions."""
