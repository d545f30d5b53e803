"""The validator against an oracle that shares no code with it, on streams full of faults."""

import random
from collections.abc import Iterator

import pytest

from ilyama_protocol.messages import RowBatch
from ilyama_protocol.rejections import Rejection
from ilyama_protocol.topics import MessageKind, parse_topic
from ilyama_protocol.validation import validate
from tests.oracle.validation import judge
from tests.streams import generate
from tests.unit.protocol.mutations import damaged

WORTH_DAMAGING = 20_000


def messages(seed: int) -> Iterator[tuple[MessageKind | None, bytes]]:
    rng = random.Random(seed)
    for event in generate(seed, batches=60, rows_per_batch=(1, 4)):
        kind = parse_topic(event.topic).kind
        if kind is MessageKind.DEVICE:
            continue
        yield kind, event.payload
        if len(event.payload) < WORTH_DAMAGING:
            yield from ((kind, damaged(event.payload, rng)) for _ in range(4))


@pytest.mark.parametrize("seed", range(4))
def test_every_message_ends_in_the_code_and_path_of_the_oracle(seed: int) -> None:
    for kind, payload in messages(seed):
        expected = judge(kind and kind.value, payload, registered=True)
        verdict = validate(kind, payload)

        if isinstance(verdict, Rejection):
            assert (verdict.code, verdict.json_path) == (expected.code, expected.json_path)
        else:
            assert expected.code is None


@pytest.mark.parametrize("seed", range(4))
def test_the_texts_of_a_row_batch_are_those_of_the_oracle(seed: int) -> None:
    for kind, payload in messages(seed):
        batch = validate(kind, payload)
        if isinstance(batch, RowBatch):
            rows = judge("rows", payload, registered=True).document["rows"]
            contents = [row.get("row") for row in rows]

            assert batch.pk_text == [row["pk"].source for row in rows]
            assert batch.row_text == [None if row is None else row.source for row in contents]
            assert repr(batch.pk) == repr([row["pk"] for row in rows])
            assert repr(batch.row) == repr(contents)
