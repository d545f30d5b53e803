"""Contents of rows that are stored: decoded from their texts, all at once where they are alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ilyama_protocol.contents import AlikeContents, Contents, MixedContents

_REMEMBERED_LAYOUTS = 1_024


def contents_of(texts: Sequence[str | None]) -> Contents:
    """What the rows say whose JSON texts these are; that of a delete is None."""
    told = [text for text in texts if text is not None]
    if not told:
        return MixedContents([None] * len(texts))
    first = msgspec.json.decode(told[0])
    whole = f"[{','.join(told)}]"
    try:
        records: list[Any] = _decoder_of((*first,)).decode(whole)
    except ValueError:
        # Rows that differ in their columns, or names that are written with an escape.
        return MixedContents(_with_deletes(msgspec.json.decode(whole), texts))
    deletes = len(texts) - len(told)
    return AlikeContents((*first,), _with_deletes(records, texts), deletes=deletes)


def _with_deletes(contents: list[Any], texts: Sequence[str | None]) -> list[Any]:
    if len(contents) == len(texts):
        return contents
    following = iter(contents)
    return [None if text is None else next(following) for text in texts]


@lru_cache(_REMEMBERED_LAYOUTS)
def _decoder_of(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    fields = {f"column_{i}": name for i, name in enumerate(names)}
    row = msgspec.defstruct(
        "_StoredRow",
        [(field, Any) for field in fields],
        rename=fields,
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]
