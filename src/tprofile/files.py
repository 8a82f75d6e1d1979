"""Write a file whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import TprofileError


def checked(path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Return the file that `path` names; raise TprofileError where none could be written.

    A `~` is the user's home, and a link stands for what it points to.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TprofileError(f"the file to write is {path!r}, but must be a path as text.")
    if "\0" in (text := os.fspath(path)):
        raise TprofileError(f"the file to write is {text!r}, but a path holds no NUL character.")
    target = Path(path).expanduser()
    try:
        target = target.resolve() if target.is_symlink() else target
        if not target.name or target.is_dir():
            raise TprofileError(f"{str(path)!r} is a folder. Give the name of a file to write.")
        if target.exists() and not overwrite:
            raise TprofileError(
                f"{str(target)!r} exists and overwrite is off. "
                "Give another name, or overwrite=True."
            )
        if not target.parent.is_dir():
            raise _not_written(target, f"there is no folder {str(target.parent)!r}")
    except OSError as error:
        raise _not_written(target, error.strerror or str(error)) from error
    return target


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears under `path` when the block ends, and only if it ends well.

    Raises TprofileError where it cannot be written, or exists and `overwrite` is off.
    """
    target = checked(path, overwrite=overwrite)
    part = target.with_name(f".tprofile-{uuid.uuid4().hex}.part")
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, target)
    except OSError as error:
        raise _not_written(target, error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _not_written(target: Path, reason: str) -> TprofileError:
    return TprofileError(
        f"cannot write {str(target)!r}: {reason}. "
        "Choose a folder that exists and that you may write to."
    )
