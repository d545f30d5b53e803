"""The files that the embedded broker is configured by, written anew at every start.

What the platform's promise rests on: the broker acknowledges a message after its journal has been
forced to disk, never gives a message up, and pages to disk what does not fit into memory.
"""

from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from ilyama_resources.embedded.ports import LOOPBACK

USER: Final = "ilyama"
PLATFORM_ROLE: Final = "platform"

_RECEIVE_MAXIMUM: Final = 1000
_MAXIMUM_PACKET_BYTES: Final = 2 * 1024 * 1024
# More than the two segments that the platform collects and writes at a time.
_MAX_READ_PAGE_BYTES: Final = 64 * 1024 * 1024
_PERMISSIONS: Final = (
    "createAddress",
    "deleteAddress",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "consume",
    "browse",
    "send",
)

_BROKER_XML: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>ilyama</name>
    <persistence-enabled>true</persistence-enabled>
    <bindings-directory>{data}/bindings</bindings-directory>
    <journal-directory>{data}/journal</journal-directory>
    <large-messages-directory>{data}/large</large-messages-directory>
    <paging-directory>{data}/paging</paging-directory>
    <journal-type>NIO</journal-type>
    <journal-datasync>true</journal-datasync>
    <journal-sync-transactional>true</journal-sync-transactional>
    <journal-sync-non-transactional>true</journal-sync-non-transactional>
    <journal-buffer-timeout>500000</journal-buffer-timeout>
    <journal-pool-files>10</journal-pool-files>
    <min-disk-free>{min_disk_free}</min-disk-free>
    <configuration-file-refresh-period>2000</configuration-file-refresh-period>
    <jmx-management-enabled>false</jmx-management-enabled>
    <remoting-incoming-interceptors>
      <class-name>ilyama.PacketGuard</class-name>
    </remoting-incoming-interceptors>
    <broker-plugins>
      <broker-plugin class-name="ilyama.MessageOrder"/>
    </broker-plugins>
    <acceptors>
{acceptors}
    </acceptors>
    <security-settings>
      <security-setting match="#">
{permissions}
      </security-setting>
    </security-settings>
    <address-settings>
      <address-setting match="#">
        <max-delivery-attempts>-1</max-delivery-attempts>
        <no-expiry>true</no-expiry>
        <dead-letter-address>undeliverable</dead-letter-address>
        <expiry-address>expired</expiry-address>
        <address-full-policy>PAGE</address-full-policy>
        <max-read-page-bytes>{max_read_page_bytes}</max-read-page-bytes>
      </address-setting>
    </address-settings>
  </core>
</configuration>
"""

_LOGIN_CONFIG: Final = """\
password {{
  org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
    reload=true
    baseDir="{directory}"
    org.apache.activemq.jaas.properties.user="users.properties"
    org.apache.activemq.jaas.properties.role="roles.properties";
}};
"""


def write_configuration(directory: Path, *, port: int, password: str, min_disk_free: int) -> None:
    """Write the broker's files into its directory, readable by their owner alone."""
    broker_xml = _BROKER_XML.format(
        data=escape(str(directory / "data")),
        min_disk_free=min_disk_free,
        max_read_page_bytes=_MAX_READ_PAGE_BYTES,
        acceptors=_lines(acceptors(port), indent=6),
        permissions=_lines(_permissions(), indent=8),
    )
    write_private(directory / "broker.xml", broker_xml)
    write_private(directory / "login.config", _LOGIN_CONFIG.format(directory=directory))
    write_private(directory / "users.properties", f"{USER} = {password}\n")
    write_private(directory / "roles.properties", f"{PLATFORM_ROLE} = {USER}\n")


def acceptors(port: int) -> list[str]:
    """The listeners: in the clear on the loopback address, for the platform and the simulator.

    The listener of devices, with TLS and client certificates, is one more line here; its logins
    are the domain `certificate` of the login configuration.
    """
    options = f"maximumPacketSize={_MAXIMUM_PACKET_BYTES};receiveMaximum={_RECEIVE_MAXIMUM}"
    address = f"tcp://{LOOPBACK}:{port}?protocols=MQTT;{options}"
    return [f'<acceptor name="platform">{escape(address)}</acceptor>']


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, at no moment anybody else."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _permissions() -> list[str]:
    return [f'<permission type="{name}" roles="{PLATFORM_ROLE}"/>' for name in _PERMISSIONS]


def _lines(lines: list[str], *, indent: int) -> str:
    return "\n".join(" " * indent + line for line in lines)
