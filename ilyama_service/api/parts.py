"""What the routes work with, held by the app they belong to."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings
from ilyama_service.api.budgets import Budget
from ilyama_service.api.group_commit import GroupCommit
from ilyama_service.api.idempotency import Repetitions
from ilyama_service.api.metrics import ApiMetrics
from ilyama_service.api.rate_limits import RateLimit
from ilyama_service.api.tokens import Credentials, Guard, Principal
from ilyama_service.policies import Policies
from ilyama_service.reviewing import Reviewing

_SEGMENTS_HELD = 8
"""Bodies of so many full segments are held in memory at most."""


@dataclass(frozen=True)
class Parts:
    """The parts of one app."""

    settings: Settings
    gateway: Gateway
    landing: Landing
    metrics: ApiMetrics
    guard: Guard
    group_commit: GroupCommit
    repetitions: Repetitions
    budget: Budget
    policies: Policies
    reviewing: Reviewing


def make_parts(settings: Settings, gateway: Gateway, landing: Landing) -> Parts:
    """Put the parts of an app together."""
    metrics = ApiMetrics(gateway)
    group_commit = GroupCommit(
        landing, gateway, segment_max_bytes=settings.segment_max_bytes, metrics=metrics.ingest
    )
    return Parts(
        settings=settings,
        gateway=gateway,
        landing=landing,
        metrics=metrics,
        guard=Guard(gateway, RateLimit(settings.api_rate_per_s)),
        group_commit=group_commit,
        repetitions=Repetitions(gateway),
        budget=Budget(_SEGMENTS_HELD * settings.api_max_body_bytes),
        policies=Policies(settings.policy),
        reviewing=Reviewing(settings.policy, most_open=settings.open_reviews_per_lineage),
    )


def parts_of(request: Request) -> Parts:
    """The parts of the app that a request came to."""
    parts: Parts = request.app.state.parts
    return parts


PartsHere = Annotated[Parts, Depends(parts_of)]


async def admitted(request: Request, parts: PartsHere, credentials: Credentials) -> Principal:
    """Who makes the request; nobody unknown or too fast comes further."""
    return await parts.guard.admit(request, credentials)


PrincipalHere = Annotated[Principal, Depends(admitted)]
