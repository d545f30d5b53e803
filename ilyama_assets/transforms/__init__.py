"""Transforms: DataFrame in, DataFrame out, each named after its result."""
