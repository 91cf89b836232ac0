# SPDX-License-Identifier: Apache-2.0
"""Identity and permissions of callers.

``identity`` finds the user of a request, by ``users`` (a file of passwords), ``tokens`` (keystone's) or ``sessions`` (of the
page); ``attempts`` limits failed sign-ins. ``projects`` resolves names of projects. ``compute_rules`` and ``volume_rules``
say who may do what, in the words of ``rules``, and ``policies`` decides by them.
"""
