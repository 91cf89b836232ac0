# SPDX-License-Identifier: Apache-2.0
"""A host and its nodes as the agent knows them.

Read ``host``, ``inventory`` (a driver's report), ``audit`` (the periodic report), ``claims`` and ``hardware`` (the test
before a claim), ``resource_tracker`` (what is held).
"""
