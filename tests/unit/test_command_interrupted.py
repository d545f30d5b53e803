"""Whoever changes their mind at once is not shown where in the code that was."""

import os
import subprocess
import sys
from pathlib import Path

from ilyama_resources.settings import REPOSITORY


def test_ctrl_c_while_the_code_is_loaded_ends_the_command_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    path = os.pathsep.join((str(tmp_path), str(REPOSITORY)))
    done = subprocess.run(
        [sys.executable, "-m", "ilyama_service.cli", "up"],
        env=os.environ | {"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
