# SPDX-License-Identifier: Apache-2.0
"""Code that the commands share.

``command`` is the base of commands that ask the conductor, ``database_command`` of those that open the database;
``application`` is what both programs share. Output: ``listing`` and
``table_fit`` (tables), ``moments`` (times), ``progress``, ``plain_output``, ``completion`` and
``console``. ``build_arguments`` describe a build, ``deletion`` is what commands that delete have in common.
"""
