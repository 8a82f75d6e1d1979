from __future__ import annotations

from pathlib import Path

import pytest

from tprofile import TprofileError
from tprofile.files import whole_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as file:
        file.write(b"new")
        assert "a" not in names(tmp_path)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failing_block_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def fail() -> None:
        with whole_file(tmp_path / "a") as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_overwrite_off(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with whole_file(path, overwrite=False) as file:
        file.write(b"old")
    message = r"'.*a' exists and overwrite is off\. Give another name, or overwrite=True\."
    with pytest.raises(TprofileError, match=message), whole_file(path, overwrite=False):
        raise AssertionError("the block must not run")
    assert path.read_bytes() == b"old"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    message = r"is a folder\. Give the name of a file"
    with pytest.raises(TprofileError, match=message), whole_file(tmp_path):
        raise AssertionError("the block must not run")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a"
    with pytest.raises(TprofileError) as caught, whole_file(path):
        raise AssertionError("the block must not run")
    assert str(caught.value).startswith(
        f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}. Choose a folder"
    )
    assert names(tmp_path) == []


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    with whole_file("~/a") as file:
        file.write(b"x")
    assert names(tmp_path) == ["a"]
