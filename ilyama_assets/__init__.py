"""The asset graph: what the platform knows, and how each table comes from the one before."""
