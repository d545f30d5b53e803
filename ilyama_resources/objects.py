"""Objects: bulk data that devices upload and the platform reads back, in a local directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ilyama_resources.durability import force_to_disk, make_directory
from ilyama_resources.errors import PlatformError


class ObjectNameRefused(PlatformError):
    """A name that would lead outside the directory of objects."""


class ObjectDirectory:
    """Objects by name, each written once and whole."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, name: str, chunks: Iterable[bytes]) -> int:
        """Store an object durably and return its size; an older one of that name is replaced."""
        path = self._path(name)
        make_directory(path.parent)
        aside = path.with_name(f".{path.name}.writing")
        with aside.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
        force_to_disk(path.parent)
        return path.stat().st_size

    def open(self, name: str) -> BinaryIO:
        """An object to read from.

        Raises:
            FileNotFoundError: There is none of that name.
        """
        return self._path(name).open("rb")

    def exists(self, name: str) -> bool:
        """Whether there is an object of that name."""
        return self._path(name).is_file()

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise ObjectNameRefused(f"{name!r} is no name for an object")
        return self._directory.joinpath(*parts)
