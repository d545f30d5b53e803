"""Options that several commands have."""

from typing import Annotated, Final

import typer

MOST_LISTED: Final = 1_000_000

JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
HowMany = Annotated[int, typer.Option("--limit", min=1, max=MOST_LISTED, help="How many.")]
HowManyOfTheNewest = Annotated[
    int, typer.Option("--limit", min=1, max=MOST_LISTED, help="How many, newest first.")
]
