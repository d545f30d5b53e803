"""The records, as commands read and change them; and who does."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from ilyama_resources.embedded.postgres_server import postgres_in_use
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.settings import Settings, load_settings

Done = TypeVar("Done")


@contextmanager
def records() -> Iterator[tuple[Settings, Gateway]]:
    """The settings and the records of this platform, started when nobody has."""
    settings = load_settings()
    settings.make_directories()
    with postgres_in_use(settings) as url, closing(Gateway(url)) as gateway:
        gateway.migrate()
        yield settings, gateway


def changed(act: Callable[[Transaction], Done]) -> Done:
    """Do something in one transaction."""
    with records() as (_, gateway), gateway.transaction() as tx:
        done = act(tx)
        tx.commit()
    return done


def actor() -> str:
    """Who types."""
    return f"{getpass.getuser()} at the command line"


def safe(text: str) -> str:
    """A device's words without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
