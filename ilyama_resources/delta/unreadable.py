"""Files that cannot be read: a reader names them and goes on with the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError

READING_ERRORS = (OSError, pa.ArrowException, DeltaError)


class Unreadable:
    """The tables and files below a warehouse that cannot be read, in the order they were met.

    Who acts upon it rather than shows it wants to know those that are lost `for_good`: of others,
    which a disk may give another time, the error goes on.
    """

    def __init__(self, warehouse: Path, *, for_good: bool = False) -> None:
        self._warehouse = warehouse
        self._for_good = for_good
        self.files: list[str] = []

    @contextmanager
    def noted(self, path: str | Path) -> Iterator[None]:
        """Note that a table or a file cannot be read, if that comes of it."""
        try:
            yield
        except READING_ERRORS as error:
            if self._for_good and not is_for_good(error):
                raise
            name = str(Path(path).relative_to(self._warehouse))
            if name not in self.files:
                self.files.append(name)


def is_for_good(error: Exception) -> bool:
    """Whether a file is lost or damaged; else it is the disk's fault, and may pass."""
    if isinstance(error, FileNotFoundError):
        return True
    if isinstance(error, OSError):
        return error.errno is None
    return isinstance(error, pa.ArrowException) and not isinstance(error, MemoryError)
