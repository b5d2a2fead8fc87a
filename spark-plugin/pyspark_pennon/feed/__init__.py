"""The change feed as a frame."""
