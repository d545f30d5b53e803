"""Mutations: a JSON body, read within bounds and acted on once for each idempotency key."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ilyama_protocol.jsontext import JsonTextError, parse_object
from ilyama_resources.postgres import Gateway, Transaction
from ilyama_service.api.errors import UnsupportedMediaType
from ilyama_service.api.idempotency import asked_under
from ilyama_service.api.naming import Renamed
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


def _whole(number: object) -> object:
    return int(number) if isinstance(number, float) and number.is_integer() else number


WHOLE: Final = BeforeValidator(_whole)
"""Lets an integer be spelt 1.0: JSON has one kind of numbers."""


class MutationBody(Renamed):
    """What a mutation is told; unknown members, and values of another type, are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


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
        self, model: type[Body], act: Callable[[Transaction, Body], BaseModel], *, status: int = 200
    ) -> Response:
        """Read the body and act on it in one transaction, or repeat what its key got before."""
        _require_json(self._request)
        with self.parts.budget.share() as share:
            body = await share.read(
                self._request.stream(),
                most=self.parts.settings.api_max_body_bytes,
                announced=self._request.headers.get("content-length"),
            )

            def answered(tx: Transaction) -> str:
                return act(tx, _decoded(model, body)).model_dump_json()

            answer = await self._answer(body, answered)
        return Response(answer, status, media_type=JSON)

    async def _answer(self, body: bytes, act: Callable[[Transaction], str]) -> str:
        if self._key is None:
            return await run_in_threadpool(_committed, self.parts.gateway, act)
        # The same body means something else on another route.
        asked = asked_under(self._principal, self._key, f"{self._path}\n".encode() + body)
        return await self.parts.repetitions.committed_once(asked, act)

    @property
    def _path(self) -> str:
        return self._request.url.path


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


def _committed(gateway: Gateway, act: Callable[[Transaction], str]) -> str:
    with gateway.transaction() as tx:
        answer = act(tx)
        tx.commit()
    return answer


def _require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON:
        raise UnsupportedMediaType(f"Content-Type must be {JSON}.")


def _decoded(model: type[Body], body: bytes) -> Body:
    text = body or b"{}"
    try:
        decoded = model.model_validate_json(text)
        # The model keeps the last of two equal keys, and says nothing.
        parse_object(text)
    except ValidationError as error:
        found = [{**problem, "loc": ("body", *problem["loc"])} for problem in error.errors()]
        raise RequestValidationError(found) from error
    except JsonTextError as error:
        raise unfit_body(error) from error
    return decoded


def unfit_body(error: Exception, *member: str) -> RequestValidationError:
    """What is wrong with a body, or with a member of it, as the models tell what they find."""
    return RequestValidationError([{"loc": ("body", *member), "msg": str(error)}])
