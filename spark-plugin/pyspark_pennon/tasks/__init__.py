"""Work as Spark's tasks: plans out, results back, errors, progress, and the files of what failed."""
