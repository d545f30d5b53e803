"""`python -m ilyama_service.cli` is the `ilyama` command."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Load the command line and run it; Ctrl-C before it is loaded just ends the process."""
    try:
        from ilyama_service.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
