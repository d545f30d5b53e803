"""The `ilyama` command line, one module per command."""
