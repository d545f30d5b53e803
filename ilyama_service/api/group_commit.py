"""Group commit: requests that arrive together land in one segment, forced to disk once."""

import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Final, NamedTuple

from ilyama_protocol.intake.outcomes import Message
from ilyama_resources.errors import PlatformError
from ilyama_resources.landing.directory import Landing, register
from ilyama_resources.landing.segment_files import Segment, portions
from ilyama_resources.landing.segment_ids import RisingIds
from ilyama_resources.postgres import Gateway
from ilyama_service.api.metrics import IngestMetrics

log = logging.getLogger(__name__)

GATHER_S: Final = 0.005
REGISTER_AGAIN_AFTER_S: Final = 2
_MOST_REMEMBERED: Final = 10_000


class LandingFailed(PlatformError):
    """The landing directory does not take messages."""


class _Request(NamedTuple):
    messages: Sequence[Message]
    landed: Future[None]

    @property
    def size(self) -> int:
        return sum(len(message.payload) for message in self.messages)


class GroupCommit:
    """A thread that lands what requests hand to it."""

    def __init__(
        self,
        landing: Landing,
        gateway: Gateway,
        *,
        segment_max_bytes: int,
        metrics: IngestMetrics,
        gather_s: float = GATHER_S,
    ) -> None:
        self._landing = landing
        self._registrar = _Registrar(gateway, metrics)
        self._segment_max_bytes = segment_max_bytes
        self._metrics = metrics
        self._gather_s = gather_s
        self._ids = RisingIds()
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="group commit", daemon=True)

    def start(self) -> None:
        """Begin to land."""
        self._thread.start()

    def close(self) -> None:
        """Land what waits, then end."""
        self._queue.put(None)
        self._thread.join()

    def submit(self, messages: Sequence[Message]) -> Future[None]:
        """Hand messages over; the future is done when they survive a crash.

        It fails with LandingFailed when the landing directory does not take them.
        """
        landed: Future[None] = Future()
        # From here on it cannot be cancelled: the messages land although nobody waits.
        landed.set_running_or_notify_cancel()
        self._queue.put(_Request(messages, landed))
        return landed

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group = self._gather(first)
            with self._metrics.seconds.time():
                self._commit(group)

    def _gather(self, first: _Request) -> list[_Request]:
        """What comes within a few milliseconds of the first, up to the size of a segment."""
        group, size = [first], first.size
        deadline = monotonic() + self._gather_s
        while size < self._segment_max_bytes:
            try:
                request = self._queue.get(timeout=max(0.0, deadline - monotonic()))
            except Empty:
                break
            if request is None:
                self._queue.put(None)
                break
            group.append(request)
            size += request.size
        return group

    def _commit(self, group: Sequence[_Request]) -> None:
        segments: list[Segment] = []
        failure: LandingFailed | None = None
        messages = chain.from_iterable(request.messages for request in group)
        try:
            for portion in portions(messages, max_bytes=self._segment_max_bytes):
                segments.append(self._landing.write(self._ids.next(), portion))
        except Exception as error:
            # Whatever it is, the thread goes on: without it all later requests would hang.
            log.error("a group of %d requests could not land: %s", len(group), error)
            self._metrics.failures.inc()
            failure = LandingFailed("The landing directory does not take messages at the moment.")
        self._registrar.register(segments)
        _tell(group, failure)
        self._count(segments)

    def _count(self, segments: Sequence[Segment]) -> None:
        self._metrics.segments.inc(len(segments))
        self._metrics.events.inc(sum(segment.messages for segment in segments))
        self._metrics.bytes.inc(sum(segment.bytes for segment in segments))


def _tell(group: Sequence[_Request], failure: LandingFailed | None) -> None:
    for request in group:
        if failure is None:
            request.landed.set_result(None)
        else:
            request.landed.set_exception(failure)


class _Registrar:
    """Makes segments known to Postgres; while it is away their files are enough."""

    def __init__(self, gateway: Gateway, metrics: IngestMetrics) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._waiting: deque[Segment] = deque(maxlen=_MOST_REMEMBERED)
        self._again_at = 0.0

    def register(self, segments: Sequence[Segment]) -> None:
        """Register segments and those that could not be before."""
        self._waiting.extend(segments)
        if not self._waiting or monotonic() < self._again_at:
            self._metrics.unregistered.inc(len(segments))
            return
        try:
            register(self._gateway, list(self._waiting))
        except Exception as error:
            # Whatever it is, the messages have landed: the next drain finds the files.
            log.warning("%d segments wait to be registered: %s", len(self._waiting), error)
            self._metrics.unregistered.inc(len(segments))
            self._again_at = monotonic() + REGISTER_AGAIN_AFTER_S
        else:
            self._waiting.clear()
