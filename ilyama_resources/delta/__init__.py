"""Delta tables: the warehouse that drains commit to, its files, and reading it without Spark."""
