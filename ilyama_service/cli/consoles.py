"""Where commands print: answers on one stream, progress and complaints on the other."""

from rich.console import Console

console = Console(soft_wrap=True)
errors = Console(stderr=True, soft_wrap=True)
tables = Console(soft_wrap=True, width=10_000)
"""For tables whose words people copy: as wide as they are, nothing is broken or cut."""
