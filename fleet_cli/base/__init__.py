# SPDX-License-Identifier: Apache-2.0
"""Code that the commands share.

``command`` is the base of commands that ask the conductor, ``database_command`` of those that open the database;
``application`` is what both programs share. ``listing`` is the base of lists, and ``output`` prints. ``build_arguments``
describe a build, ``confirmation`` asks before what cannot be undone, ``several`` is what commands on several
objects have in common.
"""
