"""Frames that become rows of a table."""
