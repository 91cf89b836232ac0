# SPDX-License-Identifier: Apache-2.0
"""The namespace ``operator``: all that the ``fleet`` command shows and changes.

``api`` sends a call in the version that it needs. ``calls`` has a method for each call, with the types of its arguments
and of its answer (``fleet.objects.answers``); ``instances``, ``hosts``, ``volumes`` and ``catalog`` have them by domain.
"""
