"""Types and names: those of a table's columns, of Spark's, and of Arrow's between them."""
