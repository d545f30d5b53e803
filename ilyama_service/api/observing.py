"""Every request is counted, timed and written to the log, without what could be secret in it."""

import logging
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ilyama_service.api.metrics import ApiMetrics

access_log = logging.getLogger("ilyama.access")
UNKNOWN = "unknown"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Observer:
    """Wraps an app; headers, queries and bodies stay out of the log."""

    def __init__(self, app: ASGIApp, metrics: ApiMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and look at its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._note(scope, status=status, seconds=perf_counter() - started)

    def _note(self, scope: Scope, *, status: int, seconds: float) -> None:
        # Words of strangers must not become labels: each would be kept for ever.
        route = getattr(scope.get("route"), "path", UNKNOWN)
        method = scope["method"] if scope["method"] in _METHODS else UNKNOWN
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.latency.labels(route, method).observe(seconds)
        access_log.info("request", extra={"fields": _fields(scope, status, seconds)})


def _fields(scope: Scope, status: int, seconds: float) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "ms": round(seconds * 1000, 1),
        "client": client[0] if client else None,
        "principal": scope.get("state", {}).get("principal"),
    }
