# SPDX-License-Identifier: Apache-2.0
"""OpenStack's own suite against ``fleet-api``: ``make tempest``.

Read ``__main__`` first: it starts a ``cloud`` (private servers, a real keystone, the daemons), writes the ``settings`` that
say what the cloud has, lets ``suite`` run the tests, and prints a ``report`` of the failures by their ``causes``.
``documented`` reads the tests that docs/http-api.md names: a failure that the page does not name fails the command.
Programs in ``programs/`` run in the virtual environment with Tempest and keystone, and import nothing of this project.
"""
