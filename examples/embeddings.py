"""A table of texts with embeddings: a backfilled column, upserts, and neighbours by their row ids.

    python examples/embeddings.py

The embedding here counts letters, so that the example needs no model: put yours into `embed`.
"""

from __future__ import annotations

import tempfile

import numpy as np
import pennon
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark_pennon import LanceTable, write

SIZE = 26
VECTORS = pa.schema({"vector": pa.list_(pa.float32(), SIZE)})
DISHES = ["rice", "noodles", "soup", "salad", "curry", "stew", "pie", "bread"]
TASTES = ["spicy", "sweet", "sour", "salty", "smoky", "bitter", "fresh", "creamy"]


def embed(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """A vector of length 1 for each text."""
    counts = np.zeros((batch.num_rows, SIZE), np.float32)
    for row, text in enumerate(batch["text"].to_pylist()):
        for letter in text.lower():
            if "a" <= letter <= "z":
                counts[row, ord(letter) - ord("a")] += 1
    counts /= np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-6)
    return {"vector": pa.FixedSizeListArray.from_arrays(pa.array(counts.ravel()), SIZE)}


def nearest(uri: str, text: str, k: int) -> list[tuple[int, str]]:
    """The row ids and texts of the `k` rows most like a text."""
    rows = pennon.dataset(uri).to_table(columns=["text", "vector"], with_row_id=True)
    vectors = rows["vector"].combine_chunks().flatten().to_numpy().reshape(-1, SIZE)
    wanted = embed(pa.record_batch({"text": [text]}))["vector"].flatten().to_numpy()
    best = np.argsort(-(vectors @ wanted), kind="stable")[:k]
    return [(rows["_rowid"][at].as_py(), rows["text"][at].as_py()) for at in best.tolist()]


def upsert(table: LanceTable, texts: DataFrame) -> None:
    """Insert and replace texts; their vectors are computed on the way, by Spark's tasks."""

    def with_vectors(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            yield pa.record_batch(
                [*batch.columns, embed(batch)["vector"].cast(pa.list_(pa.float32()))],
                names=["id", "text", "vector"],
            )

    source = texts.mapInArrow(with_vectors, "id long, text string, vector array<float>")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    counts = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().first()
    print(f"upsert: {counts.num_updated_rows} replaced, {counts.num_inserted_rows} inserted")


def run(spark: SparkSession, folder: str) -> None:
    """From texts to a table that answers, and stays right."""
    uri = f"{folder}/dishes.lance"
    texts = [(at, f"{taste} {dish}") for at, (taste, dish) in enumerate((t, d) for t in TASTES for d in DISHES)]
    write(spark.createDataFrame(texts, "id long, text string"), uri)
    table = LanceTable.forPath(spark, uri)

    done = table.addColumns(embed, VECTORS, readColumns=["text"], batchSize=16, checkpoint=f"{folder}/embed.json")
    print(f"backfill: {done.first().num_affected_rows} vectors, {pennon.dataset(uri).schema.field('vector').type}")
    found = nearest(uri, "spicy curry", 3)
    print(f"like 'spicy curry': {', '.join(text for _, text in found)}")

    upsert(
        table, spark.createDataFrame([(found[0][0], "very spicy curry"), (64, "curry pie")], "id long, text string")
    )
    again = nearest(uri, "very spicy curry", 1)
    print(f"row {found[0][0]} is now {again[0][1]!r}, under the same row id: {again[0][0] == found[0][0]}")
    table.optimize().executeCompaction()
    ids = spark.createDataFrame([(at,) for at, _ in found], "_rowid long")
    kept = table.takeRows(ids, columns=["text"]).orderBy("_rowid").collect()
    print(f"taken by row id after a compaction: {', '.join(row.text for row in kept)}")


if __name__ == "__main__":
    session = SparkSession.builder.master("local[*]").appName("embeddings").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory:
        run(session, directory)
