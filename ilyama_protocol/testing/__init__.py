"""The conformance kit: what a firmware project tests itself with.

`plugin` is the pytest plugin, `verdicts` are answers that a test can insist on, `vectors` are
questions with their right answers. This package alone reads files, and only its own vectors.
"""
