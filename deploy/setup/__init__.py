"""Everything a bare machine needs, installed once; the standard library alone does it.

Each step compares a stamp with what it would do, so a finished step costs nothing, a changed lock
installs again, and an interrupted step is taken up by the next run.
"""
