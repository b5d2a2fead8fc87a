"""Writes the golden manifests and transactions again, with pylance: `python generate.py OUT_DIR`.

Random parts (uuids, file names, times) differ from run to run; the tests do not look at them.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import lance
import pyarrow as pa


def table(start, stop):
    ids = range(start, stop)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{i}" for i in ids])})


def main(out, work):
    out.mkdir(parents=True, exist_ok=True)

    def manifest(uri, version, name):
        shutil.copy(uri / "_versions" / f"{2**64 - 1 - version:020}.manifest", out / f"{name}.manifest")

    def transaction(uri, read_version, name, largest=True):
        found = sorted((uri / "_transactions").glob(f"{read_version}-*.txn"), key=lambda f: f.stat().st_size)
        shutil.copy(found[-1 if largest else 0], out / f"{name}.txn")

    def last():
        return lance.dataset(stable).version

    stable = work / "stable"
    lance.write_dataset(table(0, 10), stable, enable_stable_row_ids=True, max_rows_per_file=5)
    manifest(stable, 1, "stable-1-create")
    lance.write_dataset(table(10, 14), stable, mode="append")
    manifest(stable, 2, "stable-2-append")
    transaction(stable, 1, "append")
    lance.dataset(stable).delete("id in (1,2,7)")
    manifest(stable, 3, "stable-3-delete")
    transaction(stable, 2, "delete")
    lance.dataset(stable).delete("id >= 10")
    manifest(stable, 4, "stable-4-delete-fragment")
    lance.dataset(stable).update({"name": "'x'"}, "id = 3")
    manifest(stable, 5, "stable-5-update")
    transaction(stable, 4, "update")
    lance.dataset(stable).create_scalar_index("id", "BTREE")
    manifest(stable, 6, "stable-6-index")
    transaction(stable, 5, "create_index")
    lance.dataset(stable).delete("id = 4")
    manifest(stable, 7, "stable-7-delete-with-index")
    lance.write_dataset(table(0, 3), stable, mode="append")
    manifest(stable, 8, "stable-8-append-with-index")
    lance.dataset(stable).optimize.compact_files()
    transaction(stable, 8, "reserve", largest=False)
    transaction(stable, 8, "rewrite")
    manifest(stable, last(), "stable-compacted")
    lance.dataset(stable).add_columns({"twice": "id * 2"})
    transaction(stable, last() - 1, "merge")
    lance.dataset(stable).drop_columns(["twice"])
    transaction(stable, last() - 1, "project")
    lance.dataset(stable).update_config({"a": "b"})
    transaction(stable, last() - 1, "update_config")
    manifest(stable, last(), "stable-config")
    lance.write_dataset(table(0, 4), stable, mode="overwrite")
    transaction(stable, last() - 1, "overwrite")
    manifest(stable, last(), "stable-overwrite")
    lance.dataset(stable, version=3).restore()
    transaction(stable, last() - 1, "restore")
    manifest(stable, last(), "stable-restore")

    clone = work / "clone"
    lance.dataset(stable).shallow_clone(clone, last())
    manifest(clone, last(), "clone")
    transaction(clone, last(), "clone")
    # The source's path is part of both: another one of the same length, which says nothing about this machine.
    for name in ("clone.manifest", "clone.txn"):
        path = str(stable).encode()
        neutral = b"/" + b"source".rjust(len(path) - 1, b"-")
        (out / name).write_bytes((out / name).read_bytes().replace(path, neutral))

    nested = work / "nested"
    struct = pa.struct([("x", pa.list_(pa.int32())), ("y", pa.dictionary(pa.int32(), pa.string()))])
    schema = pa.schema(
        [
            pa.field("a", struct),
            pa.field("t", pa.timestamp("us", "UTC"), metadata={"k": "v"}),
            pa.field("v", pa.list_(pa.float32(), 4)),
        ],
        metadata={"m": "1"},
    )
    rows = [{"a": {"x": [1], "y": "q"}, "t": None, "v": [1, 2, 3, 4]}]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=schema), nested, data_storage_version="2.1")
    manifest(nested, 1, "nested-2.1")
    transaction(nested, 0, "create")

    lance.write_dataset(table(0, 0), work / "empty", enable_stable_row_ids=True)
    manifest(work / "empty", 1, "empty-stable")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        main(Path(sys.argv[1]), Path(work))
