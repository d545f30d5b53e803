"""Damage to the files of Delta tables, as a bad disk or a careless hand does it."""

from pathlib import Path


def files_of(warehouse: Path, table: str, drain_id: int) -> list[Path]:
    """The files that a drain wrote to a table by way of the tests' own records."""
    return sorted((warehouse / table).rglob(f"drain-{drain_id}.*"))


def tear(path: Path) -> None:
    """Leave the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
