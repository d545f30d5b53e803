"""What stored rows say, decoded from their texts."""

import json

import pytest

from ilyama_protocol.contents import AlikeContents, MixedContents
from ilyama_protocol.stored_contents import contents_of


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (['{"a":1,"b":"x"}', '{"a":2.0,"b":null}'], AlikeContents),
        (['{"a":{"deep":[1]}}', None, '{"a":true}'], AlikeContents),
        (['{"a":1}', '{"b":1}'], MixedContents),
        (['{"a":1}', '{"a":1,"b":2}'], MixedContents),
        (['{"a\\n":1}'], MixedContents),
        (["{}", '{"a":1}'], MixedContents),
        ([None, None], MixedContents),
    ],
)
def test_rows_are_what_their_texts_say(texts: list[str | None], kind: type) -> None:
    contents = contents_of(texts)
    assert isinstance(contents, kind)
    assert contents.rows == [None if text is None else json.loads(text) for text in texts]
