"""Two lanes, one truth: what the fast lane accepts, the exact lane accepts with equal result."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.contents import AlikeContents
from ilyama_protocol.limits import DEFAULT_LIMITS
from ilyama_protocol.messages import RowBatch
from ilyama_protocol.texts import CutTexts
from ilyama_protocol.topics import MessageKind
from ilyama_protocol.validation import Verdict, examine
from ilyama_protocol.validation.cases import Case
from ilyama_protocol.validation.fast import proven_row_batch
from tests.unit.protocol.mutations import damaged
from tests.unit.protocol.payloads import ABSENT, change, code_of, described, document, encoded

ROWS = MessageKind.ROWS
NAMES = st.sampled_from(["id", "pk", "row", "rows", "op", "commit_seq", "", "é", "a b", '":', "{"])
TEXTS = st.sampled_from(["", ":", '":', "{", "}", "},", '},"row":{', "a\nb", "\0", "é😀", "x y"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
OBJECTS = st.dictionaries(NAMES, SCALARS, max_size=4)
KEYS = st.dictionaries(NAMES, SCALARS, min_size=1, max_size=2)
MANY = 64
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :"), (",\n", ":\t")])


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from(["insert", "update", "delete"]))
    row = draw(st.sampled_from([None, ABSENT])) if op == "delete" else draw(OBJECTS)
    made = change(draw(st.integers(0, 9)), op, pk=draw(KEYS), row=row)
    return dict(draw(st.permutations([*made.items()]))) if draw(st.booleans()) else made


@st.composite
def alike_changes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Enough rows with the same columns to be read by column, and now and then one that differs."""
    columns = draw(st.lists(NAMES, max_size=3, unique=True))
    contents = st.fixed_dictionaries(dict.fromkeys(columns, SCALARS))
    rows = draw(st.lists(contents, min_size=8, max_size=10))
    made = [change(seq, "update", pk=draw(KEYS), row=row) for seq, row in enumerate(rows)]
    return made + draw(st.lists(changes(), max_size=1))


@st.composite
def many_changes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Enough rows to be cut out by the places of their braces."""
    some = draw(st.lists(changes(), min_size=1, max_size=3) | alike_changes())
    return (some * MANY)[: MANY + draw(st.integers(0, 3))]


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    few = st.lists(changes(), min_size=1, max_size=4)
    rows = draw(few | alike_changes() | many_changes())
    numbers = [row["commit_seq"] for row in rows]
    members = {"rows": rows, "first_commit_seq": min(numbers), "last_commit_seq": max(numbers)}
    whole = draw(st.sampled_from([described, lambda **m: document(ROWS, **m)]))(**members)
    if draw(st.booleans()):
        whole["rows"] = whole.pop("rows")
    return json.dumps(whole, ensure_ascii=draw(st.booleans()), separators=draw(SEPARATORS)).encode()


def exact(payload: bytes) -> Verdict:
    return examine(Case(ROWS, payload, registered=True, limits=DEFAULT_LIMITS))


def told(verdict: Verdict | None) -> tuple[str, str, str]:
    """A batch with its keys and contents, by their texts, so that 1, 1.0 and True differ.

    The order of the columns within a row says nothing; its text keeps it.
    """
    assert isinstance(verdict, RowBatch)
    contents = [row and sorted(row.items()) for row in verdict.row]
    return repr(verdict), repr(verdict.pk), repr(contents)


def assert_one_truth(payload: bytes) -> None:
    proven = proven_row_batch(payload, DEFAULT_LIMITS)
    if proven is not None:
        assert told(proven) == told(exact(payload))


@given(payloads())
def test_both_lanes_agree_on_valid_batches(payload: bytes) -> None:
    assert code_of(exact(payload)) is None
    assert_one_truth(payload)


def test_both_lanes_agree_on_rows_that_name_their_columns_in_another_order() -> None:
    rows = [change(seq, "update", row={"a": seq, "b": None}) for seq in range(8)]
    rows.append(change(8, "update", row={"b": 1, "a": 1.0}))
    assert_one_truth(encoded(document(ROWS, rows=rows, first_commit_seq=0, last_commit_seq=8)))


@given(payloads(), st.randoms(use_true_random=False))
def test_both_lanes_agree_on_damaged_batches(payload: bytes, rng: random.Random) -> None:
    for _ in range(5):
        assert_one_truth(damaged(payload, rng))


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(encoded(document(ROWS)), id="compact"),
        pytest.param(encoded(described()), id="with columns"),
        pytest.param(json.dumps(document(ROWS), indent=2).encode(), id="indented"),
        pytest.param(encoded(document(ROWS)).replace(b"cooling", b"a: b, 9:00"), id="colons"),
        pytest.param(encoded(document(ROWS)).replace(b',"row":null', b""), id="absent row"),
        pytest.param(encoded(document(ROWS)).replace(b"cooling", b"{}"), id="braces"),
        pytest.param(encoded(document(ROWS)).replace(b"cooling", "é😀".encode()), id="unicode"),
    ],
)
def test_the_usual_batch_takes_the_fast_lane(payload: bytes) -> None:
    proven = proven_row_batch(payload, DEFAULT_LIMITS)

    assert told(proven) == told(exact(payload))


def test_rows_with_the_same_columns_are_read_by_column() -> None:
    rows = [change(seq, "update", row={"v": seq, "w": None}) for seq in range(8)]
    payload = encoded(document(ROWS, rows=rows, first_commit_seq=0, last_commit_seq=7))

    proven = proven_row_batch(payload, DEFAULT_LIMITS)

    assert proven is not None
    assert isinstance(proven.contents, AlikeContents)
    assert told(proven) == told(exact(payload))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b""),
        (b'"pk":', b'"pk": '),
        (b'"row":', b'"row": '),
        (b'"op":"insert","pk":{"id":1},', b'"pk":{"id":1},"op":"insert",'),
        (b'"row":null', b'"row": null'),
        (b',"row":null', b""),
        (b"cool", "é😀|~".encode()),
    ],
)
def test_the_texts_of_many_rows_are_cut_where_their_braces_are(old: bytes, new: bytes) -> None:
    rows = [change(seq, "insert", row={"v": seq, "w": "cool"}) for seq in range(MANY)]
    rows.insert(9, change(9, "delete", row=None))
    members = {"rows": rows, "first_commit_seq": 0, "last_commit_seq": MANY - 1}
    for whole in (encoded(described(**members)), encoded(document(ROWS, **members))):
        payload = whole.replace(old, new)
        proven = proven_row_batch(payload, DEFAULT_LIMITS)

        assert proven is not None
        assert isinstance(proven.pk_text, CutTexts)
        assert told(proven) == told(exact(payload))


@pytest.mark.parametrize("text", ["{", "}", "{}", "}, {"])
def test_braces_within_strings_are_no_places_to_cut(text: str) -> None:
    rows = [change(seq, "insert", row={"v": seq, "w": text}) for seq in range(MANY)]
    payload = encoded(document(ROWS, rows=rows, first_commit_seq=0, last_commit_seq=MANY - 1))

    proven = proven_row_batch(payload, DEFAULT_LIMITS)

    assert proven is not None
    assert not isinstance(proven.pk_text, CutTexts)
    assert told(proven) == told(exact(payload))


@pytest.mark.parametrize("size", [10, 5_000])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"v":7', b'"v":7,"v":7'),
        (b'"v":7', b'"v":7,"\\u0076":7'),
        (b'"v":7', b'"v":9223372036854775808'),
        (b'"v":7', b'"v":1e999'),
        (b'"v":7', b'"v":"\xff"'),
        (b'"v":7', b'"v":"\xed\xa0\x80"'),
        (b'"v":7', b'"v":7,"\xff":7'),
        (b'"op":"update"', b'"op":"\\u0064elete"'),
        (b'"row":{', b'"row":null,"x":{'),
        (b'"id":1}', b'"id":1,"id":1}'),
        (b'"id":1}', b'"id":1,"\xff":1}'),
        (b'{"id":1}', b"{}"),
    ],
)
def test_no_fault_hides_among_rows_with_the_same_columns(old: bytes, new: bytes, size: int) -> None:
    rows = [change(seq, "update", row={"v": seq, "w": "x" * size}) for seq in range(8)]
    whole = encoded(document(ROWS, rows=rows, first_commit_seq=0, last_commit_seq=7))
    assert proven_row_batch(whole, DEFAULT_LIMITS) is not None
    payload = whole.replace(old, new, 1)

    assert payload != whole
    assert code_of(exact(payload)) is not None
    assert proven_row_batch(payload, DEFAULT_LIMITS) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"mode":"cooling"', b'"mode":1,"mode":2'),
        (b'"mode":"cooling"', b'"mode":1,"mode" :2'),
        (b'"mode":"cooling"', b'"mode":1,"\\u006dode":2'),
        (b'{"id":1}', b'{"id":1,"id":1}'),
        (b'"op":"update"', b'"op":"insert","op":"update"'),
        (b'"format_version":1', b'"format_version":1,"format_version":1'),
        (b'"op":"update"', b'"op":"update","x":[' + b"[" * 40 + b"]" * 40 + b"]"),
        (b'"cooling"', b"9223372036854775808"),
        (b'"cooling"', b"1e999"),
        (b'"cooling"', b"NaN"),
        (b'"cooling"', b"1" * 5_000),
        (b'"cooling"', b'"\\ud800"'),
        (b'"cooling"', b'"\xff"'),
        (b'"mode"', b'"\xff"'),
        (b'"cooling"', b"[" * 29 + b"]" * 29),
        (b'"row":null', b'"row":{}'),
        (b'"pk":{"id":1}', b'"pk":{}'),
        (b'"first_commit_seq":101', b'"first_commit_seq":101.0'),
        (b"{", b"\xef\xbb\xbf{"),
        (b'"format_version"', b'"org_id":1,"format_version"'),
    ],
)
def test_the_fast_lane_lets_no_fault_pass(old: bytes, new: bytes) -> None:
    payload = encoded(document(ROWS)).replace(old, new, 1)

    assert code_of(exact(payload)) is not None
    assert proven_row_batch(payload, DEFAULT_LIMITS) is None
