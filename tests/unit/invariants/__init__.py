# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks: each finds the violation that it is for."""
