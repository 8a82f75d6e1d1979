from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from tprofile import progress
from tprofile.progress import NotebookScreen, Progress, TerminalScreen

SOON = 10  # seconds that no passing test waits for


class Recorded:
    """A screen that notes what happens to it, and lets a test wait for it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._changed = threading.Condition()

    def _note(self, what: str) -> None:
        with self._changed:
            self.log.append(what)
            self._changed.notify_all()

    def show(self, text: str) -> None:
        self._note(f"show {text}")

    def clear(self) -> None:
        self._note("clear")

    def leave(self) -> None:
        self._note("leave")

    def result(self, bundle: dict[str, str]) -> None:
        self._note("result")

    def wait_for(self, what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.log[-1:] == [what], SOON), self.log


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0)
    monkeypatch.setattr(progress, "TICK_S", 0.001)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 1e6)


@pytest.mark.usefixtures("never")
def test_what_is_quick_shows_nothing() -> None:
    screen = Recorded()
    with Progress(screen) as shown:
        shown.stage("one")
        shown.stage("two")
        shown.leave(result_follows=True)
        shown.stage("three")
    assert screen.log == ["leave"]


@pytest.mark.usefixtures("at_once")
def test_stages_are_shown_and_taken_away() -> None:
    screen = Recorded()
    with Progress(screen) as shown:
        shown.stage("one")
        screen.wait_for("show one")
        shown.stage("two")
        screen.wait_for("show two")
    assert screen.log == ["show one", "show two", "clear"]


@pytest.mark.usefixtures("at_once")
def test_an_error_takes_it_away_too() -> None:
    screen = Recorded()

    def fail() -> None:
        with Progress(screen) as shown:
            shown.stage("one")
            screen.wait_for("show one")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert screen.log == ["show one", "clear"]


@pytest.mark.usefixtures("at_once")
def test_leaving_comes_once_and_clears_what_is_shown() -> None:
    screen = Recorded()
    with Progress(screen) as shown:
        shown.stage("one")
        screen.wait_for("show one")
        shown.leave(result_follows=True)
        shown.stage("reading")
        screen.wait_for("show reading")
        shown.leave(result_follows=True)
        assert screen.log == ["show one", "clear", "leave", "show reading"]


@pytest.mark.usefixtures("at_once")
def test_without_a_result_nothing_is_shown_after_leaving() -> None:
    screen = Recorded()
    with Progress(screen) as shown:
        shown.leave(result_follows=False)
        shown.stage("reading")
        shown._thread.join(SOON)
        assert not shown._thread.is_alive()
    assert screen.log == ["leave"]


@pytest.mark.parametrize(
    ("steady", "silent", "left", "due"),
    [
        (0.25, 0.25, False, True),  # a stage that lasts
        (0, 0.75, False, False),  # short ones, of which
        (0, 1, False, True),  # one in a second is shown
        (0.75, 5, True, False),  # and under the user's output
        (1, 5, True, True),  # only what lasts a second
    ],
)
def test_what_is_short_is_not_shown_while_it_is_measured(
    steady: float, silent: float, left: bool, due: bool
) -> None:
    assert progress._due(steady, silent, left) is due


def test_the_thread_ends_with_the_block() -> None:
    with Progress(Recorded()) as shown:
        assert shown._thread.is_alive()
    assert not shown._thread.is_alive()


class Cell:
    """An output area as a notebook keeps it."""

    def __init__(self) -> None:
        self.outputs: list[list[Any]] = []

    def clear_output(self, wait: bool = False) -> None:
        assert wait is False
        self.outputs.clear()

    def publish(
        self,
        data: dict[str, str],
        transient: dict[str, str] | None = None,
        update: bool = False,
    ) -> None:
        name = (transient or {}).get("display_id")
        if update:
            for output in self.outputs:
                if output[0] == name:
                    output[1] = data["text/plain"]
        else:
            self.outputs.append([name, data["text/plain"]])

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.outputs]


def test_notebook_shows_one_line_and_takes_it_away() -> None:
    cell = Cell()
    screen = NotebookScreen(cell)
    screen.show("one")
    screen.show("two")
    assert cell.texts == ["tprofile: two …"]
    screen.clear()
    assert cell.texts == []
    screen.result({"text/plain": "table"})
    assert cell.texts == ["table"]


def test_notebook_leaves_the_users_output_alone() -> None:
    cell = Cell()
    screen = NotebookScreen(cell)
    screen.show("one")
    screen.clear()
    screen.leave()
    cell.publish({"text/plain": "mine"})
    screen.show("reading")
    screen.show("reading more")
    assert cell.texts == ["mine", "tprofile: reading more …"]
    screen.clear()
    screen.result({"text/plain": "table"})
    assert cell.texts == ["mine", "table"]


def test_notebook_escapes_what_it_shows() -> None:
    shown = []

    class Publisher(Cell):
        def publish(self, data: dict[str, str], **more: Any) -> None:
            shown.append(data["text/html"])

    NotebookScreen(Publisher()).show("<b>")
    assert "&lt;b&gt;" in shown[0]


class Terminal(io.StringIO):
    def __init__(self, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


def test_terminal_overwrites_its_line_and_leaves_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tty=True)
    monkeypatch.setattr(progress.sys, "__stderr__", terminal)
    screen = TerminalScreen()
    screen.show("one")
    screen.show("two")
    screen.result({"text/plain": "table"})
    gone = "\r\x1b[2K"
    assert terminal.getvalue() == f"{gone}tprofile: one …{gone}tprofile: two …{gone}"
    assert capsys.readouterr().out == "table\n"


@pytest.mark.parametrize("stream", [None, Terminal(tty=False)])
def test_without_a_terminal_there_is_the_result_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stream: Any
) -> None:
    monkeypatch.setattr(progress.sys, "__stderr__", stream)
    screen = TerminalScreen()
    screen.show("one")
    screen.clear()
    screen.result({"text/plain": "table"}, {"text/plain": "another"})
    assert capsys.readouterr() == ("table\n\nanother\n", "")
    assert stream is None or stream.getvalue() == ""
