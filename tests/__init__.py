# SPDX-License-Identifier: Apache-2.0
"""The test suites: ``unit`` (no network), ``functional`` (real databases), ``amqp`` (real daemons), ``bench``."""

import fleet  # noqa: F401 chooses native threads before any test module imports oslo.messaging
