"""Write a file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import TprofileError


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears under `path` when the block ends, and only if it ends well.

    Raises TprofileError where it cannot be written, or exists and `overwrite` is off.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise TprofileError(f"{str(target)!r} is a folder. Give the name of a file to write.")
    if target.exists() and not overwrite:
        raise TprofileError(
            f"{str(target)!r} exists and overwrite is off. Give another name, or overwrite=True."
        )
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, target)
    except OSError as error:
        raise TprofileError(
            f"cannot write {str(target)!r}: {error.strerror or error}. "
            "Choose a folder that exists and that you may write to."
        ) from error
    finally:
        part.unlink(missing_ok=True)
