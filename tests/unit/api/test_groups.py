"""Every group of routes is part of the API."""

import pkgutil
from importlib import import_module

from ilyama_service import api
from ilyama_service.api.app import GROUPS


def test_every_module_with_routes_is_served() -> None:
    modules = [
        import_module(f"{api.__name__}.{m.name}")
        for m in pkgutil.iter_modules(api.__path__)
        if m.name != "__main__"
    ]
    assert {m.__name__ for m in modules if hasattr(m, "router")} == {g.__name__ for g in GROUPS}
