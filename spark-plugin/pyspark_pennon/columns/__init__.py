"""Columns that are added, or get other values, while rows stay where they are."""
