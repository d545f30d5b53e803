"""Objects are whole or absent, and stay in their directory."""

from pathlib import Path

import pytest

from ilyama_resources.objects import ObjectDirectory, ObjectNameRefused


def test_an_object_comes_back_as_it_was_put(tmp_path: Path) -> None:
    objects = ObjectDirectory(tmp_path)
    assert objects.put("grants/7.jsonl.zst", [b"one", b"two"]) == 6
    with objects.open("grants/7.jsonl.zst") as file:
        assert file.read() == b"onetwo"
    objects.remove("grants/7.jsonl.zst")
    assert not objects.exists("grants/7.jsonl.zst")


def test_an_upload_that_breaks_off_leaves_the_old_object(tmp_path: Path) -> None:
    objects = ObjectDirectory(tmp_path)
    objects.put("a", [b"whole"])

    def breaks_off() -> object:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        objects.put("a", breaks_off())  # type: ignore[arg-type]
    with objects.open("a") as file:
        assert file.read() == b"whole"


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a\0b"])
def test_a_name_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ObjectNameRefused):
        ObjectDirectory(tmp_path).exists(name)
