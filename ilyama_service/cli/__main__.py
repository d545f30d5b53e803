"""`python -m ilyama_service.cli` is the `ilyama` command."""

from ilyama_service.cli.app import main

if __name__ == "__main__":
    main()
