# SPDX-License-Identifier: Apache-2.0
"""The engine: filters, weighs and picks hosts over columns. It knows no filter, domain, SQL, AMQP or configuration file.

Read in this order:

- the hosts: ``table`` (columns), ``instance_index``, ``domain`` (what a domain brings), ``remembered`` (what
  plugins compute of each row), ``inventory`` (all of it),
  ``consumption`` and ``claim_limits``, ``overlay`` (what one request changes), ``candidates`` (what one request sees)
- the plugins: ``plugins`` (base classes), ``supervision`` and ``plugin_thread`` (calling a user's code)
- a decision: ``pipeline`` and ``prepared_request``, ``restriction``, ``filtering``, ``weighers``, ``normalise`` and
  ``weighing``, ``evaluation`` (filtering and weighing, kept up to date), ``request_cache``, ``share`` (the hosts that
  this scheduler prefers), ``lottery``, ``decide`` (the order of it all) and ``decision`` (the result)
"""
