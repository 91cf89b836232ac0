# SPDX-License-Identifier: Apache-2.0
"""The pictures of the page in the manual: ``make screenshots``.

``world`` fills a trial fleet with what a real one has; ``pictures`` opens each view in Chromium and takes it, in light and
dark, wide and 390 px narrow. ``python -m tests.screenshots DIRECTORY`` does both.
"""
