# SPDX-License-Identifier: Apache-2.0
"""Reasons of decisions, for people and for programs.

Read ``shortfall`` and ``hardware_shortfall`` (the numbers behind a filter's no), ``near_misses`` (which hosts came
nearest), ``refusal`` (the reason and its sentence), ``explain`` (the answer of ``fleet explain``) and ``decision_log``.
"""
