"""The records of the platform on this machine, for commands that read or change them."""

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager

from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings, load_settings


@contextmanager
def records_in_use() -> Iterator[tuple[Settings, Gateway]]:
    """The settings, and the records in their newest form."""
    settings = load_settings()
    settings.make_directories()
    with postgres_in_use(settings) as url, closing(Gateway(url)) as gateway:
        gateway.migrate()
        yield settings, gateway


def actor() -> str:
    """Who sits at the terminal, for the audit."""
    return f"{getpass.getuser()} at the command line"


def safe(text: str) -> str:
    """A device's words without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
