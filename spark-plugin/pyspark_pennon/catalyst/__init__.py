"""What Spark's plans say of conditions and columns."""
