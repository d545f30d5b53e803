from xml.etree import ElementTree

from ilyama_resources.settings import REPOSITORY

CLASSIFIER = "{http://ant.apache.org/ivy/maven}classifier"


def jar_of(dependency: ElementTree.Element) -> str:
    configuration = dependency.get("conf", "broker").removesuffix("->master")
    artifact = dependency.find("artifact")
    classifier = "" if artifact is None else f"-{artifact.get(CLASSIFIER)}"
    return f"{configuration}/{dependency.get('name')}-{dependency.get('rev')}{classifier}.jar"


def test_every_jar_that_is_fetched_has_its_digest() -> None:
    fetched = ElementTree.parse(REPOSITORY / "deploy" / "ivy.xml").iter("dependency")
    digests = (REPOSITORY / "deploy" / "jars.sha256").read_text().splitlines()
    assert sorted(map(jar_of, fetched)) == sorted(line.split()[1] for line in digests)
