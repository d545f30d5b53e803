"""A new schema has the class of the first rule that fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.fingerprint import Affinity, SchemaColumn
from ilyama_protocol.governance.classification import (
    RULES,
    NewSchema,
    SchemaClass,
    SchemaDiff,
    classify,
)
from tests.unit.governance.schemas import columns

ID, MODE, FLOW = "id:INTEGER:pk1:nn", "mode:TEXT", "flow:REAL"
ACCEPTED = columns(ID, MODE)
BOUND = frozenset({"id", "mode"})

MAPPED, ADDITIVE = SchemaClass.COMPATIBLE_MAPPED, SchemaClass.COMPATIBLE_ADDITIVE
AMBIGUOUS, BREAKING = SchemaClass.AMBIGUOUS, SchemaClass.BREAKING
UNKNOWN = SchemaClass.UNKNOWN


def after_accepted(*words: str, bound: frozenset[str] = BOUND, **others: object) -> NewSchema:
    """A schema that comes after ID and MODE were accepted."""
    return NewSchema(columns(*words), ACCEPTED, bound, **others)  # type: ignore[arg-type]


CASES = {
    "a hash approved in the project": (after_accepted(ID, FLOW, approved=True), MAPPED),
    "an approved hash, though breaking": (after_accepted(FLOW, approved=True), MAPPED),
    "an approved hash, though first": (NewSchema(None, approved=True, first=True), MAPPED),
    "an affinity changed": (after_accepted(ID, "mode:INTEGER"), BREAKING),
    "a column dropped": (after_accepted(ID), BREAKING),
    "a column renamed": (after_accepted(ID, "state:TEXT"), BREAKING),
    "a column left the key": (after_accepted("id:INTEGER:nn", MODE), BREAKING),
    "a column entered the key": (after_accepted(ID, "mode:TEXT:pk2"), BREAKING),
    "a new column in the key": (after_accepted(ID, MODE, "site:TEXT:pk2"), BREAKING),
    "the key in another order": (
        NewSchema(
            columns("a:TEXT:pk2", "b:TEXT:pk1"),
            columns("a:TEXT:pk1", "b:TEXT:pk2"),
            frozenset("ab"),
        ),
        BREAKING,
    ),
    "a new column that is NOT NULL": (after_accepted(ID, MODE, "flow:REAL:nn"), BREAKING),
    "breaking before additive": (after_accepted("id:TEXT:pk1:nn", MODE, FLOW), BREAKING),
    "a column unlike the device table": (
        after_accepted(ID, MODE, FLOW, device_table={"flow": "TEXT"}),
        BREAKING,
    ),
    "a first schema unlike the device table": (
        NewSchema(columns(ID), first=True, device_table={"id": "TEXT"}),
        BREAKING,
    ),
    "the device table has the same": (
        NewSchema(columns(ID), first=True, device_table={"id": "INTEGER", "mode": "TEXT"}),
        AMBIGUOUS,
    ),
    "an affinity changed since an older schema": (
        after_accepted(ID, MODE, FLOW, bound=BOUND | {"flow"}, affinities={"flow": "TEXT"}),
        BREAKING,
    ),
    "an affinity changed, and nothing else is known": (
        NewSchema(columns(ID), bound=BOUND, affinities={"id": "TEXT"}),
        BREAKING,
    ),
    "the affinity of the schema accepted last counts": (
        after_accepted(ID, MODE, affinities={"mode": "INTEGER"}),
        MAPPED,
    ),
    "two bound columns under one key": (
        after_accepted(ID, MODE, under_one_key=BOUND),
        AMBIGUOUS,
    ),
    "a new column under the key of another": (
        after_accepted(ID, MODE, FLOW, under_one_key=frozenset({"mode", "flow"})),
        AMBIGUOUS,
    ),
    "every column is bound": (
        after_accepted(ID, MODE, FLOW, bound=BOUND | {"flow"}),
        MAPPED,
    ),
    "only a NOT NULL was lifted": (after_accepted("id:INTEGER:pk1", MODE), MAPPED),
    "the first schema, all bound in the project": (
        NewSchema(columns(ID, MODE), bound=BOUND, first=True),
        MAPPED,
    ),
    "all bound, though what was accepted last is unknown": (
        NewSchema(columns(ID, MODE), bound=BOUND),
        MAPPED,
    ),
    "a new nullable column": (after_accepted(ID, MODE, FLOW), ADDITIVE),
    "several of them": (after_accepted(FLOW, MODE, ID, "site:TEXT"), ADDITIVE),
    "a new column, and a NOT NULL besides": (
        after_accepted(ID, "mode:TEXT:nn", FLOW),
        AMBIGUOUS,
    ),
    "a column that was deferred": (
        after_accepted(ID, MODE, bound=frozenset({"id"})),
        AMBIGUOUS,
    ),
    "the first schema": (NewSchema(columns(ID), first=True), AMBIGUOUS),
    "the first schema, without columns": (NewSchema((), first=True), AMBIGUOUS),
    "the first schema, columns never sent": (NewSchema(None, first=True), AMBIGUOUS),
    "columns never sent": (NewSchema(None, ACCEPTED, BOUND), AMBIGUOUS),
    "columns never sent, neither before": (NewSchema(None), AMBIGUOUS),
    "nothing to compare with": (NewSchema(columns(ID)), UNKNOWN),
}


@pytest.mark.parametrize(("schema", "expected"), CASES.values(), ids=CASES.keys())
def test_a_schema_has_the_class_of_the_first_rule_that_fits(
    schema: NewSchema, expected: SchemaClass
) -> None:
    assert classify(schema) is expected


def test_the_cases_meet_every_rule() -> None:
    schemas = [schema for schema, _ in CASES.values()]
    met = {next(i for i, rule in enumerate(RULES) if rule.fits(schema)) for schema in schemas}

    assert met == {*range(len(RULES))}


def test_the_difference_names_the_columns() -> None:
    schema = NewSchema(
        columns("id:INTEGER", "mode:BLOB:nn", "flow:REAL", "site:TEXT:pk1:nn"),
        columns(ID, MODE, "gone:TEXT"),
        BOUND,
        device_table={"flow": "TEXT"},
        affinities={"mode": "REAL", "site": "INTEGER"},
        under_one_key=frozenset({"mode", "flow"}),
    )

    assert schema.diff == SchemaDiff(
        added=("flow", "site"),
        added_not_null=("site",),
        dropped=("gone",),
        affinity_changed=("mode", "site"),
        pk_changed=("id", "site"),
        null_rule_changed=("id", "mode"),
        unlike_device_table=("flow",),
        unbound=("flow", "mode", "site"),
        under_one_key=("flow", "mode"),
    )


some_columns = st.lists(
    st.builds(
        SchemaColumn,
        st.sampled_from("abcd"),
        st.sampled_from(list(Affinity)),
        pk_ordinal=st.integers(0, 2),
        not_null=st.booleans(),
    ),
    unique_by=lambda column: column.name,
).map(tuple)
some_names = st.frozensets(st.sampled_from("abcd"))


@given(some_columns, some_columns, some_names, st.randoms())
def test_the_order_of_columns_does_not_matter(
    new: tuple[SchemaColumn, ...],
    old: tuple[SchemaColumn, ...],
    bound: frozenset[str],
    random: object,
) -> None:
    shuffled = list(new)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    ordered, mixed = NewSchema(new, old, bound), NewSchema(tuple(shuffled), old, bound)

    assert (classify(mixed), mixed.diff) == (classify(ordered), ordered.diff)


@given(some_columns.filter(bool))
def test_the_same_columns_under_another_hash_are_mapped(columns: tuple[SchemaColumn, ...]) -> None:
    bound = frozenset(column.name for column in columns)

    assert classify(NewSchema(columns, columns, bound)) is MAPPED


@given(some_columns, some_columns, some_names)
def test_an_additive_schema_keeps_every_column_as_it_was(
    new: tuple[SchemaColumn, ...], old: tuple[SchemaColumn, ...], bound: frozenset[str]
) -> None:
    if classify(NewSchema(new, old, bound)) is ADDITIVE:
        added = {*new} - {*old}
        assert {*old} <= {*new}
        assert added
        assert not any(column.not_null or column.pk_ordinal for column in added)
