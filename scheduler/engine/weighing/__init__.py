# SPDX-License-Identifier: Apache-2.0
"""Weights: ``weighers`` rate candidates, ``normalise`` puts the rates between 0 and 1, ``weighing`` adds them up.

``lottery`` draws among the best.
"""
