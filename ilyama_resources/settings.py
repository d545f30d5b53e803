"""Every setting of the platform: `ILYAMA_*` variables, or the same names in a `.env` file.

Errors:
    SettingsError: a value is wrong or a name unknown; its text is one sentence for a person.
"""

import difflib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from ilyama_protocol.governance.policies import FirstSchema, Policy
from ilyama_protocol.limits import Limits
from ilyama_resources.embedded.ports import LOOPBACK
from ilyama_resources.errors import PlatformError

PREFIX: Final = "ILYAMA_"
REPOSITORY: Final = Path(__file__).resolve().parent.parent

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_GIB: Final = 1024 * _MIB
_POSTGRES_SCHEMES: Final = ("postgresql+psycopg2://", "postgresql://", "postgres://")


class SettingsError(PlatformError):
    """A setting is wrong; the message names its variable and says what to do."""


def _absolute(path: Path) -> Path:
    if path.parts and path.parts[0].endswith(":"):
        raise ValueError("a directory looks like /srv/ilyama; addresses like s3a:// are not served")
    return path.expanduser().absolute()


def _psycopg2_url(url: str) -> str:
    for scheme in _POSTGRES_SCHEMES:
        if url.startswith(scheme):
            return _POSTGRES_SCHEMES[0] + url.removeprefix(scheme)
    raise ValueError("a Postgres address looks like postgresql://user:password@host:5432/database")


def _connect_url(url: str) -> str:
    if not url.startswith("sc://"):
        raise ValueError("a Spark Connect address looks like sc://host:15002")
    return url


def _mqtt_url(url: str) -> str:
    if re.fullmatch(r"mqtts?://[^/]+/?", url) is None:
        raise ValueError("a broker's address looks like mqtts://user:password@host:8883")
    return url


def _jvm_memory(size: str) -> str:
    if re.fullmatch(r"[1-9][0-9]*[mg]", size) is None:
        raise ValueError("a memory size looks like 512m or 2g")
    return size


def _addresses(listed: str) -> str:
    for one in listed.split(","):
        try:
            ip_network(one.strip())
        except ValueError:
            raise ValueError("trusted proxies look like 10.0.0.5,192.168.7.0/24") from None
    return listed


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
PostgresUrl = Annotated[str, AfterValidator(_psycopg2_url)]
ConnectUrl = Annotated[str, AfterValidator(_connect_url)]
MqttUrl = Annotated[str, AfterValidator(_mqtt_url)]
ClientId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Addresses = Annotated[str, AfterValidator(_addresses)]
JvmMemory = Annotated[str, AfterValidator(_jvm_memory)]


def _common_name(name: str) -> Callable[[], str | None]:
    """A variable that other MQTT programs read too, for where ours is not set."""
    return lambda: os.environ.get(name) or None


def _warehouse_in_home(earlier: dict[str, Any]) -> Path:
    home: Path = earlier["home"]
    return home / "warehouse"


def _postgres_is_embedded(earlier: dict[str, Any]) -> bool:
    return earlier["postgres_url"] is None


def _accepted_where_embedded(earlier: dict[str, Any]) -> FirstSchema:
    return FirstSchema.ACCEPT if _postgres_is_embedded(earlier) else FirstSchema.REVIEW


class Ingest(StrEnum):
    """Who subscribes to the broker and lands messages."""

    SENSOR = "sensor"
    PROCESS = "process"


class Settings(BaseSettings):
    """The settings of one deployment; immutable, so that all parts agree on them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: AbsolutePath = REPOSITORY / "var"
    postgres_url: PostgresUrl | None = Field(default=None, repr=False)
    spark_remote: ConnectUrl | None = Field(default=None, repr=False)
    broker_url: MqttUrl | None = Field(default=None, repr=False)
    broker_port: Port = 1883
    broker_memory: JvmMemory = "512m"
    broker_min_disk_free: PositiveInt = _GIB
    mqtt_ca_file: AbsolutePath | None = None
    mqtt_cert_file: AbsolutePath | None = None
    mqtt_key_file: AbsolutePath | None = None
    mqtt_cert_content_b64: str | None = Field(
        default_factory=_common_name("MQTT_CERT_CONTENT_B64"), repr=False
    )
    mqtt_key_content_b64: str | None = Field(
        default_factory=_common_name("MQTT_KEY_CONTENT_B64"), repr=False
    )
    ingest_client_id: ClientId = "ilyama-ingest"
    ingest_shared: bool = False
    landing_wait_ms: PositiveInt = 200
    spark_driver_memory: JvmMemory = "1g"
    spark_cores: PositiveInt | None = None
    warehouse: AbsolutePath = Field(default_factory=_warehouse_in_home)
    auto_register: bool = Field(default_factory=_postgres_is_embedded)
    first_schema: FirstSchema = Field(default_factory=_accepted_where_embedded)
    allow_additive_continue: bool = False
    allow_auto_create_datapoints: bool = False
    open_reviews_per_lineage: PositiveInt = 100
    ingest: Ingest = Ingest.SENSOR
    segment_max_bytes: PositiveInt = 16 * _MIB
    segment_keep_h: PositiveFloat = 24
    drain_max_bytes: PositiveInt = 64 * _MIB
    device_table_rewrite_bytes: NonNegativeInt = 8 * _MIB
    drain_every_s: NonNegativeFloat = 2
    run_idle_s: PositiveFloat = 10
    run_max_s: PositiveFloat = 120
    run_keep_days: PositiveInt = 14
    payload_max_bytes: PositiveInt = 512 * _KIB
    batch_max_rows: PositiveInt = 4096
    retention_metric_days: PositiveInt = 30
    retention_state_days: PositiveInt = 365
    dagster_port: Port = 3000
    served_instances: PositiveInt = 1000
    staged_backlog_rows: PositiveInt = 100_000
    staged_backlog_bytes: PositiveInt = _GIB
    staged_backlog_resume: Annotated[float, Field(gt=0, le=1)] = 0.8
    materialization_failures: PositiveInt = 5
    stale_after_h: PositiveFloat = 24
    api_host: str = LOOPBACK
    api_port: Port = 8000
    api_max_body_bytes: PositiveInt = 8 * _MIB
    api_rate_per_s: PositiveFloat = 500
    api_trusted_proxies: Addresses | None = None

    @property
    def limits(self) -> Limits:
        """What messages may be, and how old a datapoint may come."""
        return Limits(
            self.payload_max_bytes,
            self.batch_max_rows,
            self.retention_metric_days,
            self.retention_state_days,
        )

    @property
    def policy(self) -> Policy:
        """What holds for schemas where no project or table chose."""
        return Policy(
            self.first_schema, self.allow_additive_continue, self.allow_auto_create_datapoints
        )

    @property
    def landing(self) -> Path:
        """Where segments land."""
        return self.home / "landing"

    @property
    def log(self) -> Path:
        """Where every process writes its log."""
        return self.home / "log"

    @property
    def run(self) -> Path:
        """Where locks, endpoints and scratch files of running parts lie."""
        return self.home / "run"

    @property
    def postgres_dir(self) -> Path:
        """Where the embedded Postgres keeps its data and password."""
        return self.home / "postgres"

    @property
    def broker_dir(self) -> Path:
        """Where the embedded broker keeps its journal and configuration."""
        return self.home / "broker"

    @property
    def api_dir(self) -> Path:
        """Where the HTTP API keeps its admin token."""
        return self.home / "api"

    @property
    def jars(self) -> Path:
        """Where the set-up put the jars: `delta/` and `broker/`, beside the code."""
        return REPOSITORY / ".jars"

    @property
    def cores(self) -> int:
        """How many cores Spark may use."""
        return self.spark_cores or os.cpu_count() or 1

    def make_directories(self) -> None:
        """Create the home and its directories, private to the user."""
        inside = (self.home, self.run, self.log, self.landing)
        named = [("home", directory) for directory in inside] + [("warehouse", self.warehouse)]
        for field, directory in named:
            try:
                private_directory(directory)
            except OSError as error:
                reason = f"{directory} cannot be made: {error.strerror}"
                raise SettingsError(f"{variable(field)} is wrong: {reason}.") from error

    def environment(self) -> dict[str, str]:
        """Spell these settings as variables, for a child process that must see the same."""
        given = {name: value for name, value in self if value is not None}
        return {variable(name): str(value) for name, value in given.items()}


def private_directory(path: Path) -> Path:
    """Create `path` so that only its owner can look into it; leave an existing one as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def variable(field: str) -> str:
    """Name the environment variable of a field."""
    return PREFIX + field.upper()


def load_settings() -> Settings:
    """Read the settings of this process, anew only when something about them has changed.

    Raises:
        SettingsError: a value is wrong or a variable unknown.
    """
    return _load(*_told())


def _told() -> tuple[frozenset[tuple[str, str]], str, tuple[int, int] | None]:
    """What settings depend on: variables, and the file beside them."""
    variables, file = frozenset(os.environ.items()), Path(str(Settings.model_config["env_file"]))
    with suppress(OSError):
        found = file.stat()
        return variables, str(file.absolute()), (found.st_mtime_ns, found.st_size)
    return variables, str(file.absolute()), None


@lru_cache(maxsize=4)
def _load(*_: object) -> Settings:
    _refuse_unknown_variables()
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError(_sentence(error)) from error


def _refuse_unknown_variables() -> None:
    known = sorted(variable(field) for field in Settings.model_fields)
    given = {name.upper() for name in (*os.environ, *dotenv_values(".env"))}
    for name in sorted(given):
        if name.startswith(PREFIX) and name not in known:
            raise SettingsError(f"{name} is not a setting of Ilyama; {_hint(name, known)}")


def _hint(name: str, known: list[str]) -> str:
    # The prefix that all share would make any two names look alike.
    bare = [candidate.removeprefix(PREFIX) for candidate in known]
    close = difflib.get_close_matches(name.removeprefix(PREFIX), bare, n=1)
    return f"did you mean {PREFIX}{close[0]}?" if close else ".env.example lists all of them."


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    reason = first["msg"].removeprefix("Value error, ")
    return f"{variable(str(first['loc'][0]))} is wrong: {reason[0].lower()}{reason[1:]}."
