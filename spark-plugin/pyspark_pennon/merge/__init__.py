"""`LanceTable.merge`."""

from pyspark_pennon.merge.builder import MergeBuilder

__all__ = ["MergeBuilder"]
