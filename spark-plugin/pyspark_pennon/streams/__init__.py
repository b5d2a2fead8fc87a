"""Streams from a table and into one."""
