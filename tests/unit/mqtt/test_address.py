import base64
import ssl
from pathlib import Path

import pytest

from ilyama_resources.mqtt.address import BrokerAddress
from ilyama_resources.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("url", "host", "port", "username", "password"),
    [
        ("mqtt://u:p@broker", "broker", 1883, "u", "p"),
        ("mqtts://broker", "broker", 8883, None, None),
        ("mqtt://u:p%40%3A%2F@10.0.0.1:2883/", "10.0.0.1", 2883, "u", "p@:/"),
        ("mqtt://[::1]:1884", "::1", 1884, None, None),
    ],
)
def test_an_address_is_read(
    url: str, host: str, port: int, username: str | None, password: str | None
) -> None:
    address = BrokerAddress.of(url, Settings())
    found = (address.host, address.port, address.username, address.password)
    assert found == (host, port, username, password)
    assert (address.tls is not None) == url.startswith("mqtts")


def test_a_password_never_shows() -> None:
    address = BrokerAddress.of("mqtt://u:secret@broker", Settings())
    assert "secret" not in f"{address} {address!r}"


def test_the_name_of_a_broker_is_verified() -> None:
    tls = BrokerAddress.of("mqtts://broker", Settings()).tls
    assert tls is not None
    assert tls.check_hostname
    assert tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("not base64!", r"ILYAMA_MQTT_CERT_CONTENT_B64 is wrong: it is not Base64\."),
        (base64.b64encode(b"no certificate").decode(), "are no certificate with its key"),
    ],
)
def test_an_unusable_certificate_gets_a_sentence(content: str, sentence: str) -> None:
    settings = Settings(mqtt_cert_content_b64=content, mqtt_key_content_b64=content)
    with pytest.raises(SettingsError, match=sentence):
        BrokerAddress.of("mqtts://broker", settings)


def test_a_missing_authority_gets_a_sentence(tmp_path: Path) -> None:
    settings = Settings(mqtt_ca_file=tmp_path / "ca.pem")
    with pytest.raises(SettingsError, match="ILYAMA_MQTT_CA_FILE is wrong"):
        BrokerAddress.of("mqtts://broker", settings)


def test_the_variable_that_other_programs_read_is_read_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MQTT_CERT_CONTENT_B64", "abc")
    assert Settings().mqtt_cert_content_b64 == "abc"
    monkeypatch.setenv("ILYAMA_MQTT_CERT_CONTENT_B64", "ours")
    assert Settings().mqtt_cert_content_b64 == "ours"
