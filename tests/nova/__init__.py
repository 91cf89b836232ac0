# SPDX-License-Identifier: Apache-2.0
"""fleet-scheduler in the place of nova-scheduler, with a real nova: ``make nova``.

Vocabulary: the *cloud* is nova's API, conductor and three compute services with nova's fake driver, placement, and stand-ins
for the image and network services; all of it runs on a private broker and database.

Read ``cloud`` (what is started, and how), then ``stand_ins``, then the tests.
"""
