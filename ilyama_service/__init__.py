"""What runs beside Dagster: the command line, the HTTP door, ingest and the reference device."""
