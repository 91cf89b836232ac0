# SPDX-License-Identifier: Apache-2.0
"""Entry points of all programs. The module is outside the packages, because importing one of them takes a second.

During that second Ctrl-C ends the program at once and without a traceback. A standard stream that the caller has
closed is replaced by /dev/null.
"""

import os
import signal
import sys


def fleet() -> int:
    return _run("fleet_cli.main")


def manage() -> int:
    return _run("fleet_cli.manage")


def conductor() -> int:
    return _run("conductor_stub.main")


def scheduler() -> int:
    return _run("scheduler.main")


def compute() -> int:
    return _run("compute_agent.main")


def api() -> int:
    return _run("fleet_api.main")


def volume() -> int:
    return _run("volume_agent.main")


def _run(module: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (open as long as the program runs)
    import gc
    import importlib

    # Collections while modules are imported find nothing, and take a tenth of the time. What is imported stays.
    gc.disable()
    # It chooses native threads, before anything imports oslo.messaging and with it eventlet.
    importlib.import_module("fleet")
    main = importlib.import_module(module).main
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Who reads has read enough. What is left in the buffer must not be written when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    return status
