"""Files that survive a crash: written aside, forced to disk, then moved into place."""

from __future__ import annotations

import os
from pathlib import Path


def force_to_disk(path: Path) -> None:
    """Force a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory so that it is there after a crash too."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        force_to_disk(path.parent)
