from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilyama_protocol.timestamps import instant_of, instants_of, microseconds, parse_instant

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:30:00-00:30", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1970-01-01T00:00:00.5Z", SECOND // 2),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * SECOND),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * SECOND),
        ("0000-12-31T23:59:59-00:01", -62_135_596_741 * SECOND),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_800 * SECOND - 1),
    ],
)
def test_an_instant_is_exact_to_the_nanosecond(text: str, instant: int) -> None:
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-04-28",
        "2026-04-28 09:00:00Z",
        "2026-04-28T09:00:00",
        "2026-04-28T09:00Z",
        "2026-04-28T09:00:00.Z",
        "2026-04-28T09:00:00,5Z",
        "2026-04-28T09:00:00.0000000001Z",
        "2026-04-28T09:00:60Z",
        "2026-04-28T24:00:00Z",
        "2026-04-28T09:00:00+24:00",
        "2026-04-28T09:00:00+0100",
        "2026-04-28T09:00:00+01:60",
        "2026-04-31T09:00:00Z",
        "2026-02-29T09:00:00Z",
        "2026-13-01T09:00:00Z",
        "2026-4-28T09:00:00Z",
        "2026-04-28T09:00:00Z\n",
        " 2026-04-28T09:00:00Z",
        "\u0662026-04-28T09:00:00Z",
        "0000-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "10000-01-01T00:00:00Z",
        "-001-01-01T00:00:00Z",
    ],
)
def test_what_is_not_rfc_3339_is_no_instant(text: str) -> None:
    assert parse_instant(text) is None
    with pytest.raises(ValueError, match="not an RFC 3339 timestamp"):
        instant_of(text)


@pytest.mark.parametrize(("instant", "kept"), [(1_999, 1), (1_000, 1), (999, 0), (-1, -1)])
def test_an_instant_is_kept_cut_to_the_microsecond(instant: int, kept: int) -> None:
    assert microseconds(instant) == kept


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_datetime_comes_back(moment: datetime) -> None:
    instant = parse_instant(moment.isoformat())

    assert instant is not None
    since_1970 = moment - datetime(1970, 1, 1, tzinfo=UTC)
    assert microseconds(instant) * 1_000 == instant
    assert (
        microseconds(instant)
        == (since_1970.days * 86_400 + since_1970.seconds) * 1_000_000 + since_1970.microseconds
    )


@st.composite
def spelled(draw: st.DrawFn) -> list[str]:
    """Enough timestamps to be read at once, alike but for some that are odd or wrong."""
    digits = draw(st.integers(0, 9))
    moments = draw(st.lists(st.datetimes(), min_size=1, max_size=4))
    fraction = f".{draw(st.integers(0, 10**digits - 1)):0{digits}d}" if digits else ""
    texts = [f"{moment.replace(microsecond=0).isoformat()}{fraction}Z" for moment in moments] * 20
    if draw(st.booleans()):
        at, place = draw(st.integers(0, len(texts) - 1)), draw(st.integers(0, 19))
        letter = draw(st.sampled_from("0123459tTzZ:-. +é"))
        texts[at] = texts[at][:place] + letter + texts[at][place + draw(st.integers(0, 1)) :]
    return texts


@given(spelled())
def test_many_timestamps_are_read_as_each_of_them_is(texts: list[str]) -> None:
    instants = [parse_instant(text) for text in texts]
    found = instants_of(texts)

    if None in instants:
        assert found is None
    else:
        known = [instant for instant in instants if instant is not None]
        assert found is not None
        assert [*found.microseconds] == [*map(microseconds, known)]
        assert (found.first, found.last) == (min(known), max(known))


@pytest.mark.parametrize(
    "pair", [("2026-04-28T09:00:00", "Z2026-04-28T09:00:00Z"), ("2026-02-29T09:00:00Z",) * 2]
)
def test_texts_that_only_together_look_like_timestamps_are_none(pair: tuple[str, str]) -> None:
    assert instants_of([*["2026-04-28T09:00:00Z"] * 20, *pair]) is None
