"""Bodies are bounded one by one and all together."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ilyama_service.api.budgets import Budget
from ilyama_service.api.errors import BodyTooLarge, Unavailable


async def _chunks(*sizes: int) -> AsyncIterator[bytes]:
    for size in sizes:
        yield b"x" * size


def _read(budget: Budget, *sizes: int, most: int = 100, announced: str | None = None) -> int:
    with budget.share() as share:
        body = asyncio.run(share.read(_chunks(*sizes), most=most, announced=announced))
    return len(body)


def test_a_body_is_read_whole() -> None:
    assert _read(Budget(1000), 30, 30, 40) == 100


@pytest.mark.parametrize(("sizes", "announced"), [((101,), None), ((60, 41), None), ((1,), "101")])
def test_a_body_that_is_too_large_is_refused(sizes: tuple[int, ...], announced: str | None) -> None:
    with pytest.raises(BodyTooLarge):
        _read(Budget(1000), *sizes, announced=announced)


def test_bodies_together_stay_below_the_budget_and_give_it_back() -> None:
    budget = Budget(100)
    with budget.share() as share:
        asyncio.run(share.read(_chunks(60), most=100, announced=None))
        with pytest.raises(Unavailable, match="try again"):
            _read(budget, 41)
        assert _read(budget, 40) == 40
    assert _read(budget, 100) == 100
