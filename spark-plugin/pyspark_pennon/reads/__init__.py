"""Rows of one version: as a frame, by address, and those nearest to vectors."""
