# SPDX-License-Identifier: Apache-2.0
"""Compares the examples of the manual with what the product prints, or rewrites them."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import pathlib
import sys
import tempfile

from tests.manual import normal, page, session


def outputs(name: str) -> list[tuple[page.Block, list[str]]]:
    with (
        tempfile.TemporaryDirectory(prefix="fleet-manual-") as directory,
        contextlib.closing(session.Session(pathlib.Path(directory))) as opened,
    ):
        return list(opened.run(name))


def differences(name: str) -> list[str]:
    """Where the page and the product differ, as a diff for each command."""
    found = []
    for block, printed in outputs(name):
        for command, output in zip(block.commands, printed, strict=True):
            shown, real = normal.normal(command.output), normal.normal(output)
            if shown != real:
                found += [
                    f"$ {command.line}",
                    *difflib.unified_diff(shown, real, "the page", "the product", lineterm="", n=1),
                ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.manual", description=__doc__)
    parser.add_argument("pages", nargs="*", default=page.pages(), help="Default: all pages with examples.")
    parser.add_argument("--write", action="store_true", help="Put what the product prints into the pages.")
    given = parser.parse_args()
    status = 0
    for name in given.pages:
        if given.write:
            page.rewrite(name, [printed for _, printed in outputs(name)])
            continue
        found = differences(name)
        print(f"{name}: {'differs' if found else 'agrees'}", *found, sep="\n")
        status |= bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
