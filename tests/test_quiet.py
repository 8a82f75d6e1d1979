from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from tprofile.quiet import deferred_interrupt, profiler_lines_dropped

START = b"USDT:2026-12-01 12:00:00 1:1 SyncActivityProfilerHandler.cpp:52] profiler_start\n"
STAGE = b"STAGE:2026-12-01 12:00:00 1:1 ActivityProfilerController.cpp:312] Completed Stage\n"


def test_lines_of_the_profiler_are_dropped_and_others_kept(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with profiler_lines_dropped():
        os.write(2, b"CUPTI: error 35\n" + START)
        os.write(2, STAGE + b"profiler_start by the user\nno newline")
        os.write(1, b"stdout\n")
    os.write(2, b" and after\n")
    out, err = capfd.readouterr()
    assert out == "stdout\n"
    assert err == "CUPTI: error 35\nprofiler_start by the user\nno newline and after\n"


def test_complaints_of_the_profiler_are_passed_on_and_told(
    capfd: pytest.CaptureFixture[str],
) -> None:
    lost = b"WARNING:2026-12-01 18:03:36 571:571 init.cpp:116] CUPTI failed (39)\n"
    with profiler_lines_dropped() as complaints:
        os.write(2, lost + START + b"WARNING: mine\n")
        os.write(2, b"ERROR:2026-12-01 18:03:36 5:5 Api.cpp:7] \xff full\n" + b"INFO: b.cpp:1] c\n")
    assert complaints == ["CUPTI failed (39)", "\N{REPLACEMENT CHARACTER} full"]
    assert capfd.readouterr().err.startswith(lost.decode() + "WARNING: mine\nERROR:")


def test_the_descriptor_is_given_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(ValueError), profiler_lines_dropped():
        os.write(2, START)
        os.write(2, b"before\n")
        raise ValueError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "before\nafter\n"


def test_no_descriptor_is_leaked() -> None:
    first = os.dup(0)
    os.close(first)
    for _ in range(3):
        with profiler_lines_dropped():
            pass
    last = os.dup(0)
    os.close(last)
    assert last == first


def test_without_standard_error() -> None:
    saved = os.dup(2)
    os.close(2)
    try:
        with profiler_lines_dropped():
            pass
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    handler = signal.getsignal(signal.SIGINT)
    reached = []

    def block() -> None:
        with deferred_interrupt():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("end")
        reached.append("after")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert reached == ["end"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_without_an_interrupt_nothing_is_raised() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with deferred_interrupt():
        pass
    with pytest.raises(ValueError, match="mine"), deferred_interrupt():
        raise ValueError("mine")
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_keeps_the_error_of_the_block_as_its_context() -> None:
    def block() -> None:
        with deferred_interrupt():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("mine")

    with pytest.raises(KeyboardInterrupt) as caught:
        block()
    assert isinstance(caught.value.__context__, ValueError)


def test_an_ignored_interrupt_stays_ignored() -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_interrupt():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


def test_other_threads_are_left_alone() -> None:
    reached = []

    def work() -> None:
        with deferred_interrupt():
            reached.append("inside")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert reached == ["inside"]
