import re
import stat
from pathlib import Path

import pytest

from ilyama_resources.settings import REPOSITORY, Settings, SettingsError, load_settings, variable


@pytest.fixture(autouse=True)
def _empty_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(Settings.model_config, "env_file", ".env")


def test_the_home_lies_beside_the_code_wherever_one_starts() -> None:
    assert load_settings().home == REPOSITORY / "var"


def test_a_relative_home_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ILYAMA_HOME", "state")
    assert load_settings().home == tmp_path / "state"


def test_the_warehouse_follows_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ILYAMA_HOME", "/srv/ilyama")
    assert load_settings().warehouse == Path("/srv/ilyama/warehouse")


def test_a_variable_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("ILYAMA_RUN_MAX_S=60\nILYAMA_RUN_IDLE_S=5\nOTHER=1\n")
    monkeypatch.setenv("ILYAMA_RUN_MAX_S", "30")
    settings = load_settings()
    assert (settings.run_max_s, settings.run_idle_s) == (30, 5)


@pytest.mark.parametrize(
    ("postgres_url", "explicit", "expected"),
    [
        pytest.param("", "", True, id="embedded"),
        pytest.param("postgresql://u:p@db/x", "", False, id="external"),
        pytest.param("", "false", False, id="embedded-switched-off"),
        pytest.param("postgresql://u:p@db/x", "true", True, id="external-switched-on"),
    ],
)
def test_unknown_devices_register_themselves_by_default_only_in_the_embedded_platform(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str, explicit: str, expected: bool
) -> None:
    monkeypatch.setenv("ILYAMA_POSTGRES_URL", postgres_url)
    monkeypatch.setenv("ILYAMA_AUTO_REGISTER", explicit)
    assert load_settings().auto_register is expected


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg2"])
def test_every_spelling_of_a_postgres_address_is_understood(scheme: str) -> None:
    settings = Settings(postgres_url=f"{scheme}://u:p@db/x")
    assert settings.postgres_url == "postgresql+psycopg2://u:p@db/x"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("POSTGRES_URL", "mysql://u:p@h/d", "a Postgres address looks like postgresql://"),
        ("SPARK_REMOTE", "spark://h", "a Spark Connect address looks like sc://"),
        ("WAREHOUSE", "s3a://bucket/tables", "a directory looks like /srv/ilyama"),
        ("HOME", "file:///srv/ilyama", "a directory looks like /srv/ilyama"),
        ("SPARK_DRIVER_MEMORY", "1", "a memory size looks like 512m or 2g"),
        ("SPARK_CORES", "0", "greater than 0"),
        ("BROKER_URL", "tcp://h:1883", "a broker's address looks like mqtts://"),
        ("BROKER_PORT", "70000", "less than or equal to 65535"),
        ("INGEST_CLIENT_ID", "a/b", "match pattern"),
        ("DRAIN_MAX_BYTES", "64 MiB", "valid integer"),
        ("AUTO_REGISTER", "perhaps", "valid boolean"),
        ("API_TRUSTED_PROXIES", "*", "trusted proxies look like"),
        ("API_TRUSTED_PROXIES", "10.0.0.5,proxy", "trusted proxies look like"),
    ],
)
def test_a_wrong_value_gives_one_sentence_that_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(f"ILYAMA_{name}", value)
    with pytest.raises(SettingsError, match=rf"^ILYAMA_{name} is wrong: .*{sentence}") as caught:
        load_settings()
    assert "\n" not in str(caught.value)


def test_a_password_never_shows() -> None:
    assert "secret" not in repr(Settings(postgres_url="postgresql://u:secret@db/x"))
    assert "secret" not in repr(Settings(broker_url="mqtt://u:secret@broker"))
    assert "secret" not in repr(Settings(mqtt_key_content_b64="secret"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ILYAMA_HOEM", "did you mean ILYAMA_HOME?"),
        ("ILYAMA_DRAIN_MAX_BYTE", "did you mean ILYAMA_DRAIN_MAX_BYTES?"),
        ("ILYAMA_XYLOPHONE", ".env.example lists all of them."),
    ],
)
def test_an_unknown_name_is_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(
        SettingsError, match=re.escape(f"{name} is not a setting of Ilyama; {hint}")
    ):
        load_settings()


def test_an_unknown_name_in_the_file_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("ILYAMA_HOMES=x\n")
    with pytest.raises(SettingsError, match="did you mean ILYAMA_HOME"):
        load_settings()


def test_a_child_process_sees_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=Path("/srv/ilyama"), spark_cores=3, auto_register=False)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings


def test_the_example_lists_every_setting_with_its_meaning() -> None:
    example = (REPOSITORY / ".env.example").read_text()
    listed = re.findall(r"^# .+\n# (ILYAMA_\w+)=", example, re.MULTILINE)
    assert sorted(listed) == sorted(variable(field) for field in Settings.model_fields)


def test_state_is_private_to_its_user(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "deep" / "home")
    settings.make_directories()
    for directory in (settings.home, settings.run, settings.log, settings.landing):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
