"""Which build of the platform this process has loaded.

Spark reuses its Python workers; one that was started before an upgrade still runs the old code.
Work orders name the build they were made by, and a worker of another build refuses them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_PACKAGES = ("ilyama_protocol", "ilyama_resources", "ilyama_assets")


def _hash_of_sources() -> str:
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


LOADED_BUILD = _hash_of_sources()
