"""Indices that Spark's tasks build and keep."""
