"""The API, its landing directory or its Postgres goes away: what was acknowledged is kept."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock

import httpx

from ilyama_resources.embedded.ports import LOOPBACK
from ilyama_resources.embedded.postgres_server import EmbeddedPostgres
from ilyama_resources.landing.directory import Landing
from ilyama_resources.postgres import Gateway
from ilyama_resources.settings import Settings
from tests.api_server import ApiServer, api_server
from tests.waiting import eventually


def test_a_landing_directory_that_takes_nothing_is_a_503(own_api: ApiServer) -> None:
    segments = own_api.settings.landing / "segments"
    segments.rename(segments.with_name("aside"))
    segments.write_text("a file where a directory should be")
    refused = own_api.post(b"x")
    assert (refused.status_code, refused.json()["error_code"]) == (503, "landing_unavailable")
    assert own_api.status("/readyz") == 503
    segments.unlink()
    segments.with_name("aside").rename(segments)
    assert own_api.post(b"x").status_code == 202
    assert own_api.status("/readyz") == 200


def test_every_acknowledged_event_survives_a_kill(own_api: ApiServer) -> None:
    acknowledged: list[bytes] = []
    lock, enough = Lock(), Event()

    def post_until_it_dies(worker: int) -> None:
        with own_api.client() as client, suppress(httpx.TransportError):
            for turn in range(100_000):
                payloads = [f"{worker}/{turn}/{part}".encode() for part in range(2)]
                if own_api.send(client, *payloads).status_code != 202:
                    return
                with lock:
                    acknowledged.extend(payloads)
                    if len(acknowledged) > 600:
                        enough.set()

    with ThreadPoolExecutor(8) as workers:
        runs = [workers.submit(post_until_it_dies, worker) for worker in range(8)]
        assert enough.wait(60)
        own_api.process.send_signal(signal.SIGKILL)
        for run in runs:
            run.result(60)
    assert set(acknowledged) <= set(own_api.payloads())
    assert len(own_api.payloads()) == len(set(own_api.payloads()))


def test_a_stop_answers_what_is_at_work_first(own_api: ApiServer) -> None:
    acknowledged: list[bytes] = []
    started = Event()

    def post_until_it_stops(worker: int) -> None:
        with own_api.client() as client, suppress(httpx.TransportError):
            for turn in range(100_000):
                payload = f"{worker}/{turn}".encode()
                if own_api.send(client, payload).status_code != 202:
                    return
                acknowledged.append(payload)
                started.set()

    with ThreadPoolExecutor(4) as workers:
        runs = [workers.submit(post_until_it_stops, worker) for worker in range(4)]
        assert started.wait(60)
        own_api.process.terminate()
        for run in runs:
            run.result(60)
    assert own_api.process.wait(60) == 0
    assert set(acknowledged) <= set(own_api.payloads())


def test_while_postgres_is_gone_events_land_and_reading_is_a_503(
    tmp_path: Path,
) -> None:
    postgres = EmbeddedPostgres(Settings(home=tmp_path / "postgres"))
    with postgres.in_use() as url:
        settings = Settings(home=tmp_path / "home", postgres_url=url)
        with api_server(settings) as server:
            assert server.post(b"before").status_code == 202
            _kill(postgres)
            assert server.post(b"meanwhile").status_code == 202
            with server.client() as client:
                answer = client.get("/v1/drains")
            assert (answer.status_code, answer.json()["error_code"]) == (
                503,
                "postgres_unavailable",
            )
            assert server.post(b"x", Idempotency_Key="k").status_code == 503
            assert httpx.get(f"{server.url}/healthz").status_code == 200
            parts = httpx.get(f"{server.url}/readyz").json()["details"]["parts"]
            assert (parts["postgres"]["ok"], parts["landing"]["ok"]) == (False, True)
            assert "ilyama_postgres_up 0.0" in httpx.get(f"{server.url}/metrics").text
            assert postgres.ensure_running() == url
            assert eventually(lambda: server.status("/readyz") == 200)
            assert server.get("/v1/drains")["items"] == []
            gateway = Gateway(url)
            Landing(settings.landing).register_found(gateway)
            with gateway.transaction() as tx:
                (waiting,) = tx.segments.pending()
            gateway.close()
            assert waiting.messages == 2
            assert "Traceback" not in server.log.read_text()


def test_the_embedded_postgres_is_started_anew_when_it_dies(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with api_server(settings) as server:
        _kill(EmbeddedPostgres(settings))
        assert eventually(lambda: server.status("/readyz") == 200)
        assert server.post(b"x", Idempotency_Key="k").status_code == 202


def test_a_port_in_use_is_one_sentence(own_api: ApiServer) -> None:
    port = str(own_api.settings.api_port)
    done = subprocess.run(
        [sys.executable, "-m", "ilyama_service.api"],
        env=os.environ | own_api.settings.environment() | {"ILYAMA_API_PORT": port},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stderr
    assert "Traceback" not in done.stderr


def _kill(postgres: EmbeddedPostgres) -> None:
    endpoint = postgres.endpoint()
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGKILL)
    assert eventually(lambda: postgres.endpoint() is None)


def test_a_client_that_hangs_up_in_its_body_disturbs_nobody(own_api: ApiServer) -> None:
    head = (
        f"POST /v1/ingest HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {own_api.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with socket.create_connection((LOOPBACK, own_api.settings.api_port)) as connection:
        connection.sendall(head.encode())
    assert eventually(lambda: '"path":"/v1/ingest","status":400' in own_api.log.read_text())
    assert "Traceback" not in own_api.log.read_text()
    assert own_api.post(b"x").status_code == 202
