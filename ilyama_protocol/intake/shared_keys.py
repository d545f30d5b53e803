"""Tables of a device that may give datapoints under keys of each other: somebody said so."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ilyama_protocol.identifiers import escape_key

Named = Callable[[str], frozenset[str]]
"""The datapoint keys that were chosen for columns of a table by name."""


class SharedKeys:
    """Tables found by the keys that they name, and by the tables whose usual keys those are.

    All usual keys of a table begin with its name, which has no dot there.
    """

    def __init__(self, tables: Iterable[str], named: Named) -> None:
        self._named = named
        self._own: dict[str, str] = {}
        self._by_key: dict[str, set[str]] = {}
        self._by_table: dict[str, set[str]] = {}
        self._keys: dict[str, frozenset[str]] = {}
        for table in tables:
            self._add(table)

    def sharers(self, source_table: str) -> set[str]:
        """The other tables that may give a datapoint under a key of this one."""
        keys = self._keys_of(source_table)
        if not keys and not self._by_key:
            return set()
        found = set(self._by_table.get(escape_key(source_table), ()))
        for key in keys:
            found |= self._by_key.get(key, set())
            if (owner := self._own.get(_table_part(key))) is not None:
                found.add(owner)
        return found - {source_table}

    def _add(self, table: str) -> None:
        self._own[escape_key(table)] = table
        for key in self._keys_of(table):
            self._by_key.setdefault(key, set()).add(table)
            self._by_table.setdefault(_table_part(key), set()).add(table)

    def _keys_of(self, table: str) -> frozenset[str]:
        keys = self._keys.get(table)
        if keys is None:
            keys = self._keys[table] = self._named(table)
        return keys


def _table_part(key: str) -> str:
    """What is before the first dot of a key; a key without one is of no table."""
    table, dot, _ = key.partition(".")
    return table if dot else _NO_TABLE


_NO_TABLE = "."
