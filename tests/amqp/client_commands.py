# SPDX-License-Identifier: Apache-2.0
"""Runs commands of the openstack client in children of a process that has imported the client once.

A command takes 1.7 CPU seconds from its console script, and 0.2 here. The Python is that of the client's environment, which
has no fleet. Each line of the input is a JSON object: ``words``, ``environment``, and the files ``printed`` and
``complained`` for what the command writes. The answer is the exit status.
"""

import gc
import importlib
import importlib.metadata
import json
import os
import sys
import traceback

from openstackclient import shell


def load() -> None:
    """Import what commands import: their modules, and the SDK."""
    for group in (
        "openstack.compute.v2",
        "openstack.image.v2",
        "openstack.network.v2",
        "openstack.volume.v3",
        "openstack.common",
    ):
        for each in importlib.metadata.entry_points(group=group):
            if each.value.startswith("openstackclient."):
                each.load()
    importlib.import_module("openstack.connection")
    gc.freeze()


def end(words: list[str]) -> None:
    """Run a command as the last thing of this process."""
    status = 1
    try:
        status = shell.main(words)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def answer(words: list[str], environment: dict[str, str], printed: str, complained: str) -> int:
    child = os.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(environment)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream, path in ((1, printed), (2, complained)):
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), stream)
        sys.argv[0] = "openstack"
        end(words)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    load()
    for line in sys.stdin:
        print(answer(**json.loads(line)), flush=True)
