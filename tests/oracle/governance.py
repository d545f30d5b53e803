"""Which schemas of a lineage pass without a person, and what happens to the rows of the others.

As it is with the embedded defaults: the first schema is accepted, one that only adds columns is
not. The devices of a project share the affinities of their tables' columns, the first that came.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle.records import Review
from tests.oracle.staging import Columns, Lineage, Staging

Column = Mapping[str, Any]
Schema = Sequence[Column]


class Governance:
    """The schemas that lineages sent, in order of arrival."""

    def __init__(
        self,
        staging: Staging,
        projects: Mapping[str, str] | None = None,
        *,
        approves_all: bool = False,
    ) -> None:
        """Start with nothing accepted, or with everything approved that will ever come.

        Devices that `projects` does not name have none.
        """
        self._approves_all = approves_all
        self._projects = projects or {}
        self._shared: dict[tuple[str, str], dict[str, str]] = {}
        self._first: dict[Lineage, str] = {}
        self._reviews: dict[tuple[str, str, str], Review] = {}
        self._asked_untold: set[tuple[str, str, str]] = set()
        self._accepted: dict[Lineage, list[str]] = {}
        self._staging = staging

    def staging_reason(
        self, lineage: Lineage, schema_hash: str, schemas: Mapping[str, Columns]
    ) -> str | None:
        """Why the rows of a batch wait; `schemas` are those that the lineage spelled out."""
        accepted = self._accepted.setdefault(lineage, [])
        is_first = self._first.setdefault(lineage, schema_hash) == schema_hash and not accepted
        if schema_hash not in accepted:
            schema_class = self._class_of(accepted, schema_hash, schemas)
            if self._disagrees(lineage, schemas.get(schema_hash, {})):
                schema_class = "breaking"
            passes = schema_class == "compatible_mapped" or is_first
            if not self._approves_all and (not passes or schema_class == "breaking"):
                told = schema_hash in schemas
                self._ask(Review(*lineage, schema_hash, schema_class), told=told)
                return "schema_review"
            accepted.append(schema_hash)
            self._share(lineage, schemas.get(schema_hash, {}))
        return "lineage_paused" if self._staging.is_paused(lineage) else None

    @property
    def reviews(self) -> list[Review]:
        """What people were asked, each schema of a lineage once."""
        return [*self._reviews.values()]

    def kept(self, lineage: Lineage) -> set[str]:
        """The schemas that a lineage never forgets: what it accepted, and its first."""
        first = self._first.get(lineage)
        return {*self._accepted.get(lineage, ()), *([] if first is None else [first])}

    def _table_of(self, lineage: Lineage) -> dict[str, str]:
        device_id, table = lineage
        project = self._projects.get(device_id)
        return {} if project is None else self._shared.setdefault((project, table), {})

    def _disagrees(self, lineage: Lineage, columns: Columns) -> bool:
        known = self._table_of(lineage)
        return any(
            known.get(n, c["decl_type_affinity"]) != c["decl_type_affinity"]
            for n, c in columns.items()
        )

    def _share(self, lineage: Lineage, columns: Columns) -> None:
        known = self._table_of(lineage)
        for name, column in columns.items():
            known.setdefault(name, column["decl_type_affinity"])

    def _ask(self, review: Review, *, told: bool) -> None:
        """Ask once, and once more when the columns are told that were not."""
        place = (review.device_id, review.source_table, review.schema_hash)
        if place not in self._reviews or (told and place in self._asked_untold):
            self._reviews[place] = review
            (self._asked_untold.discard if told else self._asked_untold.add)(place)
        self._staging.pause((review.device_id, review.source_table), "schema_review")

    def _class_of(
        self, accepted: Sequence[str], schema_hash: str, schemas: Mapping[str, Columns]
    ) -> str:
        if schema_hash not in schemas:
            return "ambiguous"
        new = [*schemas[schema_hash].values()]
        bound = {name for known in accepted for name in schemas.get(known, ())}
        is_known = bool(accepted) and accepted[-1] in schemas
        last = [*schemas[accepted[-1]].values()] if is_known else None
        if last is not None and _breaks(last, new):
            return "breaking"
        if new and all(column["name"] in bound for column in new):
            return "compatible_mapped"
        if last is not None and _only_adds(last, new):
            return "compatible_additive"
        return "ambiguous" if last is not None or not accepted else "unknown"


def _breaks(last: Schema, new: Schema) -> bool:
    for old in last:
        same = [column for column in new if column["name"] == old["name"]]
        if not same:
            return True
        if same[0]["decl_type_affinity"] != old["decl_type_affinity"]:
            return True
    if _key(last) != _key(new):
        return True
    names = [column["name"] for column in last]
    return any(column["not_null"] and column["name"] not in names for column in new)


def _key(schema: Schema) -> list[tuple[int, str]]:
    return sorted((c["pk_ordinal"], c["name"]) for c in schema if c["pk_ordinal"] > 0)


def _only_adds(last: Schema, new: Schema) -> bool:
    names = [column["name"] for column in last]
    kept = [_told(column) for column in new if column["name"] in names]
    added = [column for column in new if column["name"] not in names]
    unchanged = sorted(kept) == sorted(_told(column) for column in last)
    return unchanged and bool(added) and not any(column["not_null"] for column in added)


def _told(column: Column) -> tuple[Any, ...]:
    return tuple(column[n] for n in ("name", "decl_type_affinity", "pk_ordinal", "not_null"))
