"""The `ilyama` command line: its words in `commands`, and a module for the work of each."""
