"""Checks of what waits for a person, or is missing, by the records; they only warn."""

from datetime import UTC, datetime
from typing import Final

from dagster import AssetCheckResult, AssetCheckSeverity, asset_check

from ilyama_assets.automation import now_and_then
from ilyama_assets.checks.reports import SAMPLE_ROWS, report
from ilyama_assets.conflict_report import conflict_row
from ilyama_assets.rejection_report import MOST_GROUPS, rejection_rows
from ilyama_assets.review_report import MOST_SCHEMAS, schema_row
from ilyama_assets.sequence_gaps import gap_row
from ilyama_assets.tables import KEY_CONFLICTS, REJECTED_BATCHES, SEQUENCE_GAPS, STAGED_ROWS
from ilyama_protocol.intake.sequences import SequenceKind
from ilyama_resources.delta.key_conflicts import (
    RECENT_DAYS,
    first_recent_day,
    newest_conflicts,
    recent_arrivals,
)
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres.gaps import GapFilter
from ilyama_resources.postgres.rejections import RejectionFilter, RejectionState
from ilyama_resources.postgres.resource import Records

NOBODY_WAITS: Final = "no_schema_waits_for_a_person"
NOTHING_MISSING: Final = "no_telemetry_is_missing"
NO_OTHER_CONTENT: Final = "no_key_came_with_other_content"


@asset_check(
    asset=STAGED_ROWS.name,
    name=NOBODY_WAITS,
    automation_condition=now_and_then(),
    description="No schema waits for a review, so no lineage is paused for one.",
)
def no_schema_waits_for_a_person(records: Records) -> AssetCheckResult:
    """Look for open reviews."""
    with records.gateway.transaction() as tx:
        schemas = tx.open_reviews.schemas(limit=MOST_SCHEMAS)
        counts = tx.reviews.counts()
        waiting = tx.review_queue.waiting()
    return report(
        asset=STAGED_ROWS.name,
        check=NOBODY_WAITS,
        passed=not schemas,
        counts={f"reviews {state}": count for state, count in sorted(counts.items())}
        | {"schemas without room for a review": waiting},
        sample=[schema_row(schema) for schema in schemas],
        advice=(
            "`ilyama review show N` tells what changed, who sends it and what would come of it; "
            "`ilyama review approve N` lets the rows go on. Until then they are staged, not lost."
        ),
        severity=AssetCheckSeverity.WARN,
    )


@asset_check(
    asset=REJECTED_BATCHES.name,
    name="no_rejection_waits_for_a_person",
    automation_condition=now_and_then(),
    description="Every rejection is explained, replayed or discarded.",
)
def no_rejection_waits_for_a_person(records: Records) -> AssetCheckResult:
    """Look for rejections that nobody has said anything of."""
    with records.gateway.transaction() as tx:
        wanted = RejectionFilter(state=RejectionState.REJECTED.value)
        waiting = tx.rejections.count(wanted)
        groups = tx.rejections.largest_groups(wanted, limit=MOST_GROUPS)
    return report(
        asset=REJECTED_BATCHES.name,
        check="no_rejection_waits_for_a_person",
        passed=waiting == 0,
        counts={"rejections that wait": waiting},
        sample=rejection_rows(groups),
        advice=(
            "`ilyama rejections` tells what is wrong, one line for one mistake. When it is mended, "
            "`ilyama rejections replay` decides the messages again; `explain` and `discard` say "
            "why that is not needed."
        ),
        severity=AssetCheckSeverity.WARN,
    )


@asset_check(
    asset=SEQUENCE_GAPS.name,
    name=NOTHING_MISSING,
    automation_condition=now_and_then(),
    description=(
        "Between the lowest and the highest number of every sampled table, no batch is missing. "
        "Gaps of journals are counted too, but only a hint."
    ),
)
def no_telemetry_is_missing(records: Records) -> AssetCheckResult:
    """Look for gaps of telemetry."""
    wanted = GapFilter(kind=SequenceKind.TELEMETRY)
    with records.gateway.transaction() as tx:
        gaps = tx.gaps.page(wanted, after=None, limit=SAMPLE_ROWS)
        totals = tx.gaps.totals()
    counts: dict[str, int] = {}
    for total in totals:
        counts[f"gaps of {total.kind}"] = total.gaps
        counts[f"numbers of {total.kind} missing"] = total.missing + total.unlisted
    return report(
        asset=SEQUENCE_GAPS.name,
        check=NOTHING_MISSING,
        passed=not gaps,
        counts=counts,
        sample=[gap_row(gap) | {"discarded": gap.discarded} for gap in gaps],
        advice=(
            "Rejections that explain a gap are named with it: replay them once their cause is "
            "gone; those that were discarded explain it for good. Where none is named, the batch "
            "never reached the broker, or it was rejected or staged before its device and its "
            "number could be read: look at the device, and at `ilyama rejections list`."
        ),
        severity=AssetCheckSeverity.WARN,
    )


@asset_check(
    asset=KEY_CONFLICTS.name,
    name=NO_OTHER_CONTENT,
    automation_condition=now_and_then(),
    description=f"In the last {RECENT_DAYS} days nothing else came under a key that was taken.",
)
def no_key_came_with_other_content(lake: DeltaLake) -> AssetCheckResult:
    """Look for conflicts of the last days."""
    root, today = lake.warehouse.root, datetime.now(UTC).date()
    recent = recent_arrivals(root, today=today)
    newest = newest_conflicts(root, limit=SAMPLE_ROWS).conflicts
    since = first_recent_day(today)
    return report(
        asset=KEY_CONFLICTS.name,
        check=NO_OTHER_CONTENT,
        passed=recent.arrivals == 0 and not recent.unreadable,
        counts={
            f"arrivals of other content in {RECENT_DAYS} days": recent.arrivals or 0,
            "files that cannot be read": len(recent.unreadable),
        },
        sample=[conflict_row(conflict) for conflict in newest if conflict.place.day >= since],
        advice=(
            "What came first stays, and what else came is kept in `key_conflicts`; `ilyama "
            "conflicts` lists it. Two devices with one identity send under the same keys, and so "
            "does a device whose journal began anew under its old `journal_epoch`, or whose "
            "`batch_seq` did: look at the devices named here."
        ),
        severity=AssetCheckSeverity.WARN,
    )


WAITING_CHECKS = [
    no_schema_waits_for_a_person,
    no_rejection_waits_for_a_person,
    no_telemetry_is_missing,
    no_key_came_with_other_content,
]
