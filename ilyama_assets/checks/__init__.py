"""Asset checks: the promises of the tables, verified and reported."""
