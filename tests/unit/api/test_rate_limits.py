"""A sender may be quick for a moment, and not for long."""

import pytest

from ilyama_service.api.rate_limits import RateLimit


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _taken(limit: RateLimit, sender: str, tries: int) -> int:
    return sum(limit.wait_s(sender) == 0 for _ in range(tries))


def test_twice_the_rate_at_once_then_no_more() -> None:
    assert _taken(RateLimit(5, _Clock()), "a", 100) == 10


def test_senders_do_not_take_from_each_other() -> None:
    limit = RateLimit(5, _Clock())
    assert _taken(limit, "a", 100) == _taken(limit, "b", 100) == 10


def test_a_bucket_fills_with_time_and_not_above_its_rim() -> None:
    clock = _Clock()
    limit = RateLimit(5, clock)
    _taken(limit, "a", 100)
    clock.now += 1
    assert _taken(limit, "a", 100) == 5
    clock.now += 1000
    assert _taken(limit, "a", 100) == 10


def test_who_waits_as_told_is_let_in() -> None:
    clock = _Clock()
    limit = RateLimit(0.25, clock)
    assert limit.wait_s("a") == 0
    wait_s = limit.wait_s("a")
    assert wait_s == pytest.approx(4)
    clock.now += wait_s
    assert limit.wait_s("a") == 0


def test_many_strangers_do_not_fill_the_memory_nor_free_the_busy() -> None:
    clock = _Clock()
    limit = RateLimit(5, clock)
    for number in range(9_999):
        limit.wait_s(f"stranger {number}")
    clock.now += 10
    assert _taken(limit, "busy", 100) == 10
    limit.wait_s("one more")
    assert limit.senders == 2
    assert limit.wait_s("busy") > 0
