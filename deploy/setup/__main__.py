"""`python3 -m deploy.setup`: find a suitable Python, then take every step with it."""

# Old Pythons run this file too, to be told that they are old: no new syntax here.
import os
import subprocess
import sys

SUITABLE = ((3, 11), (3, 12), (3, 13))
FOR_TESTS = "--for-tests"


def main() -> int:
    """Set the repository up; return the exit code."""
    if sys.version_info[:2] not in SUITABLE:
        return run_with_a_suitable_python()
    from deploy.setup.report import SetupError, finished
    from deploy.setup.steps import take_every_step

    try:
        take_every_step(for_tests=FOR_TESTS in sys.argv[1:])
    except (SetupError, OSError) as error:
        print(f"Set-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Set-up was interrupted; the next one goes on.", file=sys.stderr)
        return 130
    finished()
    return 0


def run_with_a_suitable_python() -> int:
    """Hand over to a Python that will do, or say which ones would."""
    for major, minor in reversed(SUITABLE):
        python = f"python{major}.{minor}"
        if is_usable(python):
            os.execvp(python, [python, "-m", "deploy.setup", *sys.argv[1:]])
    print(
        "Ilyama needs Python 3.11, 3.12 or 3.13, and python3 here is {}.{}. Install one of them, "
        "or name it: make PYTHON=/path/to/python3.12".format(*sys.version_info[:2]),
        file=sys.stderr,
    )
    return 1


def is_usable(python: str) -> bool:
    """Tell whether this command is there and runs."""
    try:
        return subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
