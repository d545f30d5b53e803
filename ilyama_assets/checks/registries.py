"""Checks of datapoints against the registries: what they name exists, and is of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from dagster import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    asset_check,
)
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ilyama_assets.automation import every_night
from ilyama_assets.checks.reading import last_closed_drain, read, sample, until
from ilyama_assets.checks.reports import SAMPLE_ROWS, report
from ilyama_assets.tables import METRIC_DATAPOINT, STATE_DATAPOINT
from ilyama_protocol.intake.datapoints import (
    SOURCE_RULE,
    SOURCE_RULE_VERSION,
    TELEMETRY_SOURCE_RULE,
)
from ilyama_resources.delta.data_files import TableContract
from ilyama_resources.lake import DeltaLake
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_resources.postgres.resource import Records
from ilyama_resources.spark.resource import Spark

RULES: Final = frozenset(
    f"{rule}@{version}"
    for rule in (SOURCE_RULE, TELEMETRY_SOURCE_RULE)
    for version in range(1, SOURCE_RULE_VERSION + 1)
)
"""The rules of the platform itself, in all their versions."""

ONE_KIND_PER_KEY: Final = "one_kind_per_key"
_NAMED: Final = {
    "component": "component_id",
    "system": "system_id",
    "location": "location_id",
    "node": "node_id",
    "key": "key",
    "rule": "concat(source_rule, '@', source_rule_version)",
    "event": "event_id",
}
"""What a datapoint names, and where it does."""

PORTION: Final = 1_000
"""So many of the names are held in memory at a time."""

Names = Collection[str]


def _unknown_rules(_: Transaction, names: Names) -> set[str]:
    return {*names} - RULES


def _all_unknown(_: Transaction, names: Names) -> set[str]:
    return {*names}


_UNKNOWN: Final[Mapping[str, Callable[[Transaction, Names], set[str]]]] = {
    "component": lambda tx, names: tx.registries.unknown_components(names),
    "system": _all_unknown,
    "location": _all_unknown,
    "node": _all_unknown,
    "key": lambda tx, names: {*names} - tx.registries.kinds_of(names).keys(),
    "rule": _unknown_rules,
    "event": lambda tx, names: tx.events.unknown(names),
}
"""Which names are in no registry. There are no systems, locations and nodes yet."""


def named_by(points: DataFrame) -> DataFrame:
    """All that datapoints name: what and which it is, in how many rows, and since when."""
    named = F.array(
        *(F.struct(F.lit(what).alias("what"), F.expr(where).cast("string").alias("name"))
          for what, where in _NAMED.items())
    )  # fmt: skip
    each = points.select(F.explode(named).alias("named"), "drain_id").select("named.*", "drain_id")
    return (
        each.where("name IS NOT NULL")
        .groupBy("what", "name")
        .agg(F.count("*").alias("rows"), F.min("drain_id").alias("first_drain"))
    )


def keys_of_two_kinds(metrics: DataFrame, states: DataFrame) -> DataFrame:
    """The keys with numbers as well as other values; null is neither."""
    numbers = metrics.where("value IS NOT NULL").groupBy("key")
    others = states.where("value IS NOT NULL").groupBy("key")
    return numbers.agg(F.count("*").alias("numbers")).join(
        others.agg(F.count("*").alias("other_values"), F.max("drain_id").alias("last_drain")),
        "key",
    )


class NamesLookedUp:
    """The names of datapoints: how many there are, and which of them nobody knows."""

    def __init__(self) -> None:
        self.sorts: Counter[str] = Counter()
        self.unknown = 0
        self.rows = 0
        """How many rows have an unknown one."""
        self.sample: list[dict[str, Any]] = []

    def add(self, tx: Transaction, named: Collection[Row]) -> None:
        """Look some of the names up."""
        by_sort: dict[str, list[str]] = {}
        for one in named:
            by_sort.setdefault(one["what"], []).append(one["name"])
        unknown = {what: _UNKNOWN[what](tx, names) for what, names in by_sort.items()}
        offending = [one.asDict() for one in named if one["name"] in unknown[one["what"]]]
        self.sorts.update({what: len(names) for what, names in by_sort.items()})
        self.unknown += len(offending)
        self.rows += sum(one["rows"] for one in offending)
        self.sample = [*self.sample, *offending][:SAMPLE_ROWS]


def names_looked_up(gateway: Gateway, points: DataFrame) -> NamesLookedUp:
    """All that datapoints name, looked up a portion at a time."""
    looked_up = NamesLookedUp()
    for named in _portions(named_by(points)):
        with gateway.transaction() as tx:
            looked_up.add(tx, named)
    return looked_up


def _portions(rows: DataFrame) -> Iterator[list[Row]]:
    coming = rows.toLocalIterator()
    while portion := [*islice(coming, PORTION)]:
        yield portion


def _foreign_key_check(contract: TableContract) -> AssetChecksDefinition:
    @asset_check(
        asset=contract.name,
        name="foreign_keys",
        automation_condition=every_night(),
        description="Every owner, key, rule and event that a row names exists in its registry.",
    )
    def check(records: Records, spark: Spark, lake: DeltaLake) -> AssetCheckResult:
        # What a drain names is registered when it is closed.
        closed = last_closed_drain(records.gateway)
        points = until(read(spark.spark_session, lake.warehouse, contract), closed)
        found = names_looked_up(records.gateway, points)
        return report(
            asset=contract.name,
            check="foreign_keys",
            passed=found.unknown == 0,
            counts={f"{what}s": count for what, count in sorted(found.sorts.items())}
            | {"unknown": found.unknown, "rows with one": found.rows},
            sample=found.sample,
            advice=(
                "Intake registers what it writes. Either another writer added these rows, or the "
                "records were restored from a backup older than the tables."
            ),
        )

    return check


@asset_check(
    asset=STATE_DATAPOINT.name,
    name=ONE_KIND_PER_KEY,
    additional_deps=[METRIC_DATAPOINT.name],
    automation_condition=every_night(),
    description="No key has numbers as well as texts, booleans or nested values.",
)
def one_kind_per_key(spark: Spark, lake: DeltaLake) -> AssetCheckResult:
    """List the keys whose columns were never announced and hold values of two kinds."""
    session, warehouse = spark.spark_session, lake.warehouse
    metrics, states = (read(session, warehouse, c) for c in (METRIC_DATAPOINT, STATE_DATAPOINT))
    keys = keys_of_two_kinds(metrics, states)
    count = keys.count()
    return report(
        asset=STATE_DATAPOINT.name,
        check=ONE_KIND_PER_KEY,
        passed=count == 0,
        counts={"keys of two kinds": count},
        sample=sample(keys.orderBy("key"), keys.columns) if count else [],
        advice=(
            "The devices never announced these columns, so each value went by its own type. Let "
            "the firmware send `schema_columns`; from then on values that do not fit are set apart."
        ),
        severity=AssetCheckSeverity.WARN,
    )


REGISTRY_CHECKS = [
    *map(_foreign_key_check, (METRIC_DATAPOINT, STATE_DATAPOINT)),
    one_kind_per_key,
]
