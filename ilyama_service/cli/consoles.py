"""Where commands print: answers on one stream, progress and complaints on the other."""

from rich.console import Console

console = Console(soft_wrap=True)
errors = Console(stderr=True, soft_wrap=True)
