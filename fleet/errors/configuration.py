# SPDX-License-Identifier: Apache-2.0
"""Errors of the configuration: the service cannot start with it. Called by :mod:`fleet.errors`."""

from fleet.errors.base import FleetError
from fleet.reasons import Reason


class ConfigError(FleetError):
    """An option has a value that the service cannot start with."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    template = "Option {option} {reason}"


class NotConfigured(ConfigError):
    """A required option is not set. Set it in one of the files that the message names."""

    template = "{option} is not set. {files} Set it, {example}, or name another file with --config-file."


class FilterNotFound(ConfigError):
    """``scheduler_default_filters`` names filters that ``scheduler_available_filters`` does not provide."""

    template = "Option scheduler_default_filters names Scheduler Host Filter {filter_name}, which could not be found."

    def __init__(self, *, filter_name: str) -> None:
        super().__init__(filter_name=filter_name)


class ClassNotFound(ConfigError):
    """A dotted path in the configuration names nothing usable."""

    template = "Option {option} names class {class_name}, which cannot be used: {reason}"
