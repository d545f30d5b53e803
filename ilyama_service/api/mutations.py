"""Mutations: a JSON body, read within bounds and acted on once for each idempotency key."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError

from ilyama_service.api.errors import UnsupportedMediaType
from ilyama_service.api.parts import Parts, PartsHere, PrincipalHere
from ilyama_service.api.tokens import Principal

JSON: Final = "application/json"
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern="^[!-~]+$",
        description="The same key and body within a day get the same answer and act once.",
    ),
]


class MutationBody(BaseModel):
    """What a mutation is told; unknown members are refused."""

    model_config = ConfigDict(extra="forbid")


Body = TypeVar("Body", bound=MutationBody)


class Mutation:
    """A request that changes something, and who makes it."""

    def __init__(
        self, request: Request, parts: Parts, principal: Principal, key: str | None
    ) -> None:
        self.parts = parts
        self.actor = principal.name
        self._request = request
        self._principal = principal
        self._key = key

    async def carry_out(
        self, model: type[Body], act: Callable[[Body], BaseModel], *, status: int = 200
    ) -> Response:
        """Read the body and act on it, or repeat the answer that its key got before."""
        _require_json(self._request)
        with self.parts.budget.share() as share:
            body = await share.read(
                self._request.stream(),
                most=self.parts.settings.api_max_body_bytes,
                announced=self._request.headers.get("content-length"),
            )

            async def answered() -> str:
                done = await run_in_threadpool(act, _decoded(model, body))
                return done.model_dump_json()

            if self._key is None:
                answer = await answered()
            else:
                # The same body means something else on another route.
                asked = f"{self._request.url.path}\n".encode() + body
                answer = await self.parts.repetitions.once(
                    self._principal, self._key, asked, answered
                )
        return Response(answer, status, media_type=JSON)


def _mutation(
    request: Request,
    parts: PartsHere,
    principal: PrincipalHere,
    idempotency_key: IdempotencyKey = None,
) -> Mutation:
    return Mutation(request, parts, principal, idempotency_key)


MutationHere = Annotated[Mutation, Depends(_mutation)]


def described(model: type[MutationBody], *, required: bool) -> dict[str, Any]:
    """The body of a mutation, for its OpenAPI description."""
    schema = model.model_json_schema()
    content = {JSON: {"schema": _inlined(schema, schema.pop("$defs", {}))}}
    return {"requestBody": {"required": required, "content": content}}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema without references, which would lead nowhere inside the whole document."""
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if (name := schema.get("$ref")) is not None:
        return _inlined(definitions[name.removeprefix("#/$defs/")], definitions)
    return {word: _inlined(part, definitions) for word, part in schema.items()}


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON:
        raise UnsupportedMediaType(f"Content-Type must be {JSON}.")


def _decoded(model: type[Body], body: bytes) -> Body:
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        found = [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
        raise RequestValidationError(found) from error
