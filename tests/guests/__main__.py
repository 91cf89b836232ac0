# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny image of the tests for a trial: ``python -m tests.guests FILE``."""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile

from tests.guests import tiny_image


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(tiny_image.make(pathlib.Path(directory)), argv[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
