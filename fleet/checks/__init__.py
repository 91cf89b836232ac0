# SPDX-License-Identifier: Apache-2.0
"""Checks of the configuration: ``findings`` (what a check returns), ``option_check`` (misspelt options) and ``required``."""
