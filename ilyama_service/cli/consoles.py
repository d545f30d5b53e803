"""Where commands print: answers on one stream, progress and complaints on the other."""

from collections.abc import Iterable

from rich.console import Console

console = Console(soft_wrap=True)
errors = Console(stderr=True, soft_wrap=True)
tables = Console(soft_wrap=True, width=10_000)
"""For tables whose words people copy: as wide as they are, nothing is broken or cut."""


def name_unreadable(files: Iterable[str]) -> None:
    """Complain about files that an answer is without."""
    for file in files:
        errors.print(f"{file} cannot be read.", markup=False, highlight=False)
