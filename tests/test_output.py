from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

from IPython.core.interactiveshell import InteractiveShell

from tprofile.output import Outputs


class Stream(io.StringIO):
    """A stream that notes each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


@contextlib.contextmanager
def streams() -> Iterator[tuple[Stream, Stream]]:
    # Inside the test: pytest puts its own streams in place when a test begins.
    out, err = Stream(), Stream()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


def test_setup_and_last_run_go_out_and_progress_makes_room() -> None:
    shell = InteractiveShell.instance()
    with streams() as (out, err):
        outputs = Outputs(shell, lambda: print("[room]"))
        with outputs.setup():
            print("setup")
        for i in range(3):
            with outputs.run(last=i == 2):
                print("run", i)
    assert "".join(out.writes) == "[room]\nsetup\nrun 2\n"
    assert err.writes == []


def test_nothing_at_all_is_written_ahead_of_a_silent_run() -> None:
    shell = InteractiveShell.instance()
    with streams() as (out, err):
        outputs = Outputs(shell, lambda: None)
        with outputs.run(last=False):
            pass
        with outputs.run(last=True):
            # In a notebook even an empty write would be sent while the run is measured.
            assert (out.writes, err.writes) == ([], [])


def test_warnings_come_once_and_held_output_when_no_run_was_the_last() -> None:
    shell = InteractiveShell.instance()
    with streams() as (out, err), warnings.catch_warnings():
        warnings.simplefilter("always")
        outputs = Outputs(shell, lambda: None)
        for number in (1, 2):
            with outputs.run(last=False):
                print("run", number)
                warnings.warn("mine", UserWarning, stacklevel=1)
        assert (out.writes, err.writes) == ([], [])
        outputs.release()
        outputs.release()
    assert "".join(out.writes) == "run 2\n"
    assert "".join(err.writes).count("UserWarning: mine") == 1
