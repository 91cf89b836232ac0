# SPDX-License-Identifier: Apache-2.0
"""The command that switches a host off: how it may end, and what is left of one that hangs."""

from __future__ import annotations

import datetime
import os
import pathlib
import subprocess
import sys

import pytest
from oslo_config import cfg

from conductor_stub import conf as conductor_conf
from conductor_stub.steps import fence, guard
from conductor_stub.steps.fence import Order
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import errors
from tests.amqp.daemons import eventually
from tests.configuration import configuration

#: Python starts in this time on a slow machine.
PATIENT_S = 60.0
NEVER = datetime.datetime.max
TOLD = ("HOST", "RECOVERY", "FENCE_ATTEMPT", "FENCE_TIMEOUT")


def order(script: str, timeout_s: float = PATIENT_S, host: str = "h1") -> Order:
    return Order([sys.executable, "-c", script], host, "recovery-uuid", 2, timeout_s, NEVER)


@pytest.mark.parametrize(
    ("script", "is_off", "message"),
    [
        pytest.param("print('power is off')", True, "the fence succeeded; it wrote: power is off", id="off"),
        pytest.param("raise SystemExit(3)", False, "the fence failed: exit status 3", id="fails"),
        pytest.param("import os; os.kill(os.getpid(), 9)", False, "the fence failed: signal 9", id="is killed"),
        pytest.param(
            "print('\\x1b[2J' + 'x\\n' * 2000 + 'end')", True, "x x end", id="what it writes is cut and printable"
        ),
    ],
)
def test_the_ends_of_a_fence(script: str, is_off: bool, message: str) -> None:
    outcome = fence.run(order(script))
    assert is_off == outcome.is_off
    assert outcome.message.endswith(message)
    assert outcome.message.isprintable()
    assert len(outcome.message) < 600


def test_what_a_fence_is_told() -> None:
    """The host is an argument of its own, whatever its name is; no shell reads it."""
    script = f"import os, sys; print(sys.argv[1:], *(os.environ['FLEET_' + k] for k in {TOLD}))"
    said = fence.run(order(script, host="h1; touch /tmp/never")).message
    assert "['h1; touch /tmp/never']" in said
    assert "h1; touch /tmp/never recovery-uuid 2 60" in said


def hangs(pids: pathlib.Path) -> str:
    """A script that ignores SIGTERM, and whose child has a session of its own; both write their pids."""
    return f"trap '' TERM INT HUP; setsid sleep 600 & echo $! $$ > {pids}; mv {pids} {pids}.all; sleep 600"


def test_a_fence_that_hangs_is_killed_with_what_it_has_started(tmp_path: pathlib.Path) -> None:
    """Its child would write later, and holds the output open."""
    outcome = fence.run(Order(["/bin/sh", "-c", hangs(tmp_path / "pids")], "h1", "uuid", 1, 4, NEVER))
    assert not outcome.is_off
    assert "the fence did not end within 4 s, and was killed" == outcome.message
    assert [True, True] == _have_ended(tmp_path)


def test_nothing_of_a_fence_outlives_its_conductor(tmp_path: pathlib.Path) -> None:
    """Another conductor runs the next one. By then the host may be up again, and this one would switch it off."""
    order = ["/bin/sh", "-c", hangs(tmp_path / "pids")]
    script = (
        "import datetime; from conductor_stub.steps import fence\n"
        f"fence.run(fence.Order({order}, 'h1', 'uuid', 1, 600, datetime.datetime.max))"
    )
    conductor = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        eventually((tmp_path / "pids.all").exists)
        assert [False, False] == _have_ended(tmp_path)
    finally:
        conductor.kill()
        conductor.wait()
    eventually(lambda: [True, True] == _have_ended(tmp_path))


def test_nothing_of_a_fence_outlives_its_end(tmp_path: pathlib.Path) -> None:
    script = f"setsid sleep 600 & echo $! > {tmp_path}/pids.all"
    assert fence.run(Order(["/bin/sh", "-c", script], "h1", "uuid", 1, PATIENT_S, NEVER)).is_off
    assert [True] == _have_ended(tmp_path)


def test_a_fence_that_comes_late_does_not_begin(tmp_path: pathlib.Path) -> None:
    """This process stood still after it had decided to run it."""
    outcome = fence.run(Order(["/bin/touch", f"{tmp_path}/begun"], "h1", "uuid", 1, -1, NEVER))
    assert (False, []) == (outcome.is_off, list(tmp_path.iterdir()))


def test_a_fence_inherits_no_files() -> None:
    script = "import os; print([f for f in range(3, 100) if os.path.exists(f'/proc/self/fd/{f}')], os.read(0, 1))"
    assert "the fence succeeded; it wrote: [] b''" == fence.run(order(script)).message


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param("late left", "the fence did not end within 9 s, and not all of it could be killed", id="late"),
        pytest.param(
            "ended 0 left", "the fence succeeded; what it has left runs on: it cannot be killed", id="succeeds"
        ),
    ],
)
def test_what_cannot_be_killed_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, report: str, expected: str
) -> None:
    """It belongs to another user, for example."""
    other = tmp_path / "guard.py"
    other.write_text(f"print({report!r})")
    monkeypatch.setattr(guard, "__file__", str(other))
    assert expected == fence.run(Order(["/sbin/off"], "h1", "uuid", 1, 9, NEVER)).message


def _have_ended(directory: pathlib.Path) -> list[bool]:
    return [_has_ended(pid) for pid in (directory / "pids.all").read_text().split()]


def _has_ended(pid: str) -> bool:
    stat = pathlib.Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("command", ["/no/such/program", "/etc"])
def test_a_fence_that_cannot_be_run(command: str) -> None:
    outcome = fence.run(Order([command], "h1", "uuid", 1, PATIENT_S, NEVER))
    assert not outcome.is_off
    assert outcome.message.startswith("the fence cannot be run: ")


def _conf(**options: object) -> cfg.ConfigOpts:
    conf = configuration(conductor_conf.register_opts)
    for name, value in options.items():
        conf.set_override(name, value, "recovery")
    return conf


def test_recoveries_need_a_fence() -> None:
    with pytest.raises(errors.ConfigError, match="enabled.* needs fence_command, or another fence"):
        RecoverySettings.from_conf(_conf(enabled=True))
    with pytest.raises(errors.ConfigError, match="fence_command.* cannot be read: No closing quotation"):
        RecoverySettings.from_conf(_conf(fence_command="/sbin/off 'x"))
    read = RecoverySettings.from_conf(_conf(enabled=True, fence_command="/sbin/off --by 'power switch'"))
    assert ["/sbin/off", "--by", "power switch"] == read.fence_command
    assert RecoverySettings.from_conf(_conf(enabled=True, fence="none")).enabled


def test_what_a_fence_writes_does_not_fill_the_disk() -> None:
    """It goes on when what it has written is removed. The end of that is kept for the message."""
    script = (
        "import os, sys, time; sys.stdout.write('x' * 2**21 + 'power off fails'); sys.stdout.flush()\n"
        "while os.fstat(1).st_size > 2**20: time.sleep(0.05)\n"
        "raise SystemExit(os.fstat(1).st_size > 500)"
    )
    outcome = fence.run(order(script))
    assert (True, True) == (outcome.is_off, outcome.message.endswith("xpower off fails"))
