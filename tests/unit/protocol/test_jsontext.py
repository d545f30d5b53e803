from typing import Any

import pytest

from ilyama_protocol.jsontext import (
    JsonTextError,
    first_number_not_finite,
    parse_object,
    path_to,
)

BIGGEST_DOUBLE = 2**1024 - 2**970


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    """An object whose only member brings the whole text to a depth."""
    return b'{"a":' + opening * (depth - 1) + b"1" + closing * (depth - 1) + b"}"


@pytest.mark.parametrize(
    ("payload", "document"),
    [
        pytest.param(b"{}", {}, id="empty"),
        pytest.param(b' \r\n\t{ "a" : 1 } \n', {"a": 1}, id="white space"),
        pytest.param(b'{"a":-0}', {"a": 0}, id="minus zero is an integer"),
        pytest.param(b'{"a":9223372036854775808}', {"a": 2**63}, id="beyond int64"),
        pytest.param(b'{"a":18446744073709551616}', {"a": 2**64}, id="beyond uint64"),
        pytest.param(b'{"a":[21.50,1E2]}', {"a": [21.5, 100.0]}, id="reals"),
        pytest.param(b'{"a":0e999}', {"a": 0.0}, id="zero with a large exponent"),
        pytest.param(b'{"a":1e-999}', {"a": 0.0}, id="underflow"),
        pytest.param(b'{"a":"\\u0000"}', {"a": "\0"}, id="escaped nul"),
        pytest.param(b'{"a":"\x7f"}', {"a": "\x7f"}, id="delete character"),
        pytest.param(b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}, id="surrogate pair"),
        pytest.param(b'{"a":"\\\\ud800"}', {"a": "\\ud800"}, id="backslash before ud800"),
        pytest.param('{"\ufeff":1}'.encode(), {"\ufeff": 1}, id="byte order mark inside"),
        pytest.param(b'{"a":"[[[[{{{{"}', {"a": "[[[[{{{{"}, id="brackets in a string"),
        pytest.param(
            b'{"a":{"k":1},"b":{"k":1}}', {"a": {"k": 1}, "b": {"k": 1}}, id="two objects"
        ),
        pytest.param(b'{"a":1,"A":2}', {"a": 1, "A": 2}, id="keys that differ in case"),
    ],
)
def test_one_json_object_is_read(payload: bytes, document: dict[str, Any]) -> None:
    parsed = parse_object(payload)

    assert parsed == document
    assert repr(parsed) == repr(document)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" ", id="space"),
        pytest.param(b"\0", id="nul"),
        pytest.param(b"[]", id="array"),
        pytest.param(b"1", id="number"),
        pytest.param(b'"a"', id="string"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"' + b"[" * 40 + b'"', id="a string of brackets"),
        pytest.param(b"{}{}", id="two objects"),
        pytest.param(b"{} x", id="trailing text"),
        pytest.param(b"{}\0", id="trailing nul"),
        pytest.param(b"{}\x0c", id="form feed"),
        pytest.param("{}\u00a0".encode(), id="no-break space"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param('{"a":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"a":"\xff"}', id="invalid UTF-8"),
        pytest.param(b'{"a":"\xc0\x80"}', id="overlong nul"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', id="encoded surrogate"),
        pytest.param(b'{"a":"\xf4\x90\x80\x80"}', id="beyond Unicode"),
        pytest.param(b'{"a":"\\ud800"}', id="lone high surrogate"),
        pytest.param(b'{"a":"\\uDC00"}', id="lone low surrogate"),
        pytest.param(b'{"a":"\\ude00\\ud83d"}', id="surrogates reversed"),
        pytest.param(b'{"a":["\\ud83d\\ud83d\\ude00"]}', id="three surrogates"),
        pytest.param(b'{"\\udfff":1}', id="surrogate in a key"),
        pytest.param(b'{"a":{"b":[{"\\ud800":1}]}}', id="surrogate in a nested key"),
        pytest.param(b'{"a":1,"a":1}', id="key twice"),
        pytest.param(b'{"a":1,"\\u0061":2}', id="key twice, once escaped"),
        pytest.param(b'{"x":[{"y":{"k":1,"k":1}}]}', id="nested key twice"),
        pytest.param(b'{"":1,"":1}', id="empty key twice"),
        pytest.param(
            b"{%s}" % b",".join(b'"%d":0' % (n % 60_000) for n in range(60_001)),
            id="one of 60,000 keys twice",
        ),
        pytest.param(
            b"{%s}" % b",".join(b'"%d":0' % min(n, 59_999) for n in range(60_001)),
            id="the last of 60,000 keys twice",
        ),
        pytest.param(b'{"a":1,}', id="trailing comma"),
        pytest.param(b"{a:1}", id="bare key"),
        pytest.param(b"{'a':1}", id="single quotes"),
        pytest.param(b'{"a":1}//', id="comment"),
        pytest.param(b'{"a":01}', id="leading zero"),
        pytest.param(b'{"a":+1}', id="leading plus"),
        pytest.param(b'{"a":.5}', id="leading point"),
        pytest.param(b'{"a":1.}', id="trailing point"),
        pytest.param(b'{"a":1e}', id="no exponent"),
        pytest.param(b'{"a":0x10}', id="hex number"),
        pytest.param('{"a":\u0661}'.encode(), id="arabic digit"),
        pytest.param(b'{"a":nan}', id="nan in lower case"),
        pytest.param(b'{"a":+Infinity}', id="plus infinity"),
        pytest.param(b'{"a":-NaN}', id="minus nan"),
        pytest.param(b'{"a":Inf}', id="inf"),
        pytest.param(b'{"a":True}', id="capital true"),
        pytest.param(b'{"a":"\n"}', id="raw line break in a string"),
        pytest.param(b'{"a":"\x1f"}', id="raw control character"),
        pytest.param(b'{"a":"\\x41"}', id="unknown escape"),
        pytest.param(b'{"a":"\\u12"}', id="short escape"),
        pytest.param(b'{"a":"x}', id="open string"),
        pytest.param(b'{"a":1', id="open object"),
        pytest.param(nested(33), id="33 arrays"),
        pytest.param(nested(33, b'{"a":', b"}"), id="33 objects"),
        pytest.param(b'{"a":' + b"[" * 500_000, id="500,000 open arrays"),
        pytest.param(b'{"a":' * 90_000, id="90,000 open objects"),
        pytest.param(nested(250_000), id="250,000 levels"),
    ],
)
def test_anything_else_is_refused(payload: bytes) -> None:
    with pytest.raises(JsonTextError):
        parse_object(payload)


@pytest.mark.parametrize(
    "payload",
    [
        nested(32),
        nested(32, b'{"a":', b"}"),
        b'{"b":"' + b'[{\\"' * 99 + b'",' + nested(32)[1:],
        b'{"b":[' + b",".join([b"[[]]"] * 99) + b"]}",
    ],
    ids=["arrays", "objects", "beside brackets in a string", "wide"],
)
def test_thirty_two_levels_are_deep_enough(payload: bytes) -> None:
    assert parse_object(payload)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b'{"a":NaN}', "$.a"),
        (b'{"a":Infinity}', "$.a"),
        (b'{"a":[1,-Infinity]}', "$.a[1]"),
        (b'{"a":{"b c":1e999}}', '$.a["b c"]'),
        (b'{"a":-1E400,"b":NaN}', "$.a"),
        (b'{"a":1' + b"0" * 308 + b".5}", None),
        (b'{"a":1' + b"0" * 309 + b".5}", "$.a"),
        (b'{"a":-1' + b"0" * 309 + b"}", "$.a"),
        (b'{"a":1' + b"0" * 100_000 + b"}", "$.a"),
        (b'{"a":%d}' % (BIGGEST_DOUBLE - 1), None),
        (b'{"a":%d}' % BIGGEST_DOUBLE, "$.a"),
        (b'{"a":"NaN","b":1.7976931348623157e308}', None),
    ],
)
def test_a_number_that_no_double_holds_is_found(payload: bytes, path: str | None) -> None:
    assert first_number_not_finite(parse_object(payload), payload) == path


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ("pk", "$.pk"),
        ("_a1", "$._a1"),
        (3, "$[3]"),
        ("odd name", '$["odd name"]'),
        ("1a", '$["1a"]'),
        ("", '$[""]'),
        ('"', '$["\\""]'),
        ("é", '$["é"]'),
    ],
)
def test_a_path_quotes_odd_names(step: str | int, path: str) -> None:
    assert path_to("$", step) == path
