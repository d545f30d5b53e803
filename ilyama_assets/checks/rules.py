"""The CHECK rules of datapoints, once as SQL for tables and Spark, once for Arrow.

Both forms are NULL-safe: they are true or false, never unknown, because Delta refuses what is not
true while SQL's own CHECK lets the unknown pass.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

OWNER_KINDS = ("component", "system", "location", "node")

LINEAGE_RULE = """provenance IS NOT NULL AND (
  (provenance IN ('observed', 'calculated') AND source_rule IS NOT NULL AND event_id IS NULL)
  OR (provenance = 'intended' AND event_id IS NOT NULL AND source_rule IS NULL))"""


def _only_owner(kind: str | None) -> str:
    ids = " AND ".join(
        f"{other}_id IS {'NOT NULL' if other == kind else 'NULL'}" for other in OWNER_KINDS
    )
    return f"(owner_kind = '{kind or 'global'}' AND {ids})"


_ONE_OWNER = " OR ".join(map(_only_owner, (*OWNER_KINDS, None)))
OWNER_RULE = f"owner_kind IS NOT NULL AND ({_ONE_OWNER})"


def _equals(column: pa.ChunkedArray, word: str) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return pc.fill_null(pc.equal(column, word), False)
    # Arrow would write out every text before comparing it.
    found = [pc.equal(chunk.dictionary, word).take(chunk.indices) for chunk in column.chunks]
    return pc.fill_null(pa.chunked_array(found, pa.bool_()), False)


def keeps_lineage_rule(points: pa.Table) -> pa.ChunkedArray:
    """Whether each row keeps the lineage rule."""
    has_rule = pc.is_valid(points["source_rule"])
    has_event = pc.is_valid(points["event_id"])
    provenance = points["provenance"]
    found = pc.or_(_equals(provenance, "observed"), _equals(provenance, "calculated"))
    intended = _equals(provenance, "intended")
    return pc.or_(
        pc.and_(found, pc.and_(has_rule, pc.invert(has_event))),
        pc.and_(intended, pc.and_(has_event, pc.invert(has_rule))),
    )


def keeps_owner_rule(points: pa.Table) -> pa.ChunkedArray:
    """Whether each row keeps the owner rule."""
    kept = _keeps_only(points, None)
    for kind in OWNER_KINDS:
        kept = pc.or_(kept, _keeps_only(points, kind))
    return kept


def _keeps_only(points: pa.Table, kind: str | None) -> pa.ChunkedArray:
    kept = _equals(points["owner_kind"], kind or "global")
    for other in OWNER_KINDS:
        is_set = pc.is_valid(points[f"{other}_id"])
        kept = pc.and_(kept, is_set if other == kind else pc.invert(is_set))
    return kept
