"""Writes histories of tables with pylance, one manifest per version: `python generate.py OUT_DIR`.

Every manifest holds the transaction that made it, so each version can be made again from the one before. Random
parts (uuids, file names, times) differ from run to run; the tests do not look at them.
"""

import json
import shutil
import sys
import tempfile
import uuid
from pathlib import Path

import lance
import pyarrow as pa
from lance import LanceOperation as Op
from lance.dataset import Index
from lance.fragment import RowIdMeta

BTREE = ("/lance.table.BTreeIndexDetails", b"")


def table(start, stop):
    ids = range(start, stop)
    names = pa.array([f"n{i}" for i in ids])
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names, "twice": pa.array([2 * i for i in ids])})


def identified(sequence):
    return RowIdMeta.from_json(json.dumps({"Inline": list(bytes.fromhex(sequence))}))


def versions(uri, out):
    out.mkdir(parents=True, exist_ok=True)
    for version in lance.dataset(uri).versions():
        number = version["version"]
        name = f"{2**64 - 1 - number:020}.manifest"
        shutil.copy(uri / "_versions" / name, out / f"{number:03}.manifest")


def verbs(uri, stable):
    """What the usual calls commit."""
    lance.write_dataset(table(0, 20), uri, enable_stable_row_ids=stable, max_rows_per_file=5)

    def open_():
        return lance.dataset(uri)

    def merge(rows):
        return open_().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)

    open_().create_scalar_index("id", "BTREE")
    open_().create_scalar_index("twice", "BITMAP")
    lance.write_dataset(table(20, 24), uri, mode="append")
    open_().optimize.optimize_indices(num_indices_to_merge=0)
    open_().update({"name": "'x'"}, "id in (3, 4, 7)")
    open_().update({"twice": "7"}, "id = 8")
    open_().update({"name": "'all'"}, "id >= 10 and id < 15")
    merge(table(15, 18))
    merge(pa.concat_tables([table(30, 32), table(1, 2), table(22, 23), table(5, 6)]))
    merge(table(40, 43))
    open_().update({"name": "'y'"}, "id in (30, 1, 40, 0)")
    open_().optimize.optimize_indices()
    open_().delete("id in (31, 41)")
    open_().delete("id = 1000")
    open_().optimize.compact_files(target_rows_per_fragment=6)
    open_().create_scalar_index("id", "BTREE", replace=True)
    open_().update({"name": "'z'"}, "id in (2, 23)")
    open_().optimize.compact_files()
    open_().add_columns({"more": "id * 3"})
    open_().add_columns(pa.field("null", pa.int32()))
    open_().alter_columns({"path": "name", "name": "text"})
    open_().alter_columns({"path": "more", "data_type": pa.int32()})
    open_().update({"more": "1"}, "id = 9")
    open_().drop_columns(["twice"])
    open_().drop_columns(["more", "null"])
    open_().update_config({"a": "b", "c": "d"})
    open_().delete_config_keys(["a"])
    open_().update_metadata({"t": "1"})
    open_().update_metadata({"u": "2"}, replace=True)
    open_().update_schema_metadata({"s": "1"})
    open_().update_field_metadata({"id": {"f": "1"}, "text": {"g": "1"}})
    open_().update_field_metadata({"id": {"f": None}})
    open_().update_field_metadata({"text": {"h": "1"}}, replace=True)
    open_().add_columns({"again": "id"})
    open_().drop_columns(["again"])
    open_().drop_index("id_idx")
    open_().delete("true")
    lance.write_dataset(table(50, 53), uri, mode="overwrite")
    lance.dataset(uri, version=8).restore()


def raw(uri, stable):
    """Transactions that no call makes."""
    lance.write_dataset(table(0, 10), uri, enable_stable_row_ids=stable, max_rows_per_file=5)

    def open_():
        return lance.dataset(uri)

    def commit(operation):
        lance.LanceDataset.commit(uri, operation, read_version=open_().version)

    def written(start, stop):
        return lance.fragment.write_fragments(table(start, stop), uri, mode="append")

    def fragments():
        return [f.metadata for f in open_().get_fragments()]

    open_().create_scalar_index("id", "BTREE")
    open_().create_scalar_index("twice", "BTREE")
    # Columns rewritten in place, without and with the touched offsets.
    new = pa.table({"id": pa.array([1, 3], pa.int64()), "twice": pa.array([100, 300], pa.int64())})
    first, modified = open_().get_fragments()[0].update_columns(new, left_on="id", right_on="id")
    commit(Op.Update(updated_fragments=[first], fields_modified=modified, update_mode="rewrite_columns"))
    first, modified = (
        open_()
        .get_fragments()[1]
        .update_columns(pa.table({"id": pa.array([6], pa.int64()), "name": ["six"]}), left_on="id", right_on="id")
    )
    offsets = bytes.fromhex("3a3000000100000000000000100000000100")
    commit(
        Op.Update(
            updated_fragments=[first],
            fields_modified=modified,
            update_mode="rewrite_columns",
            updated_fragment_offsets={1: offsets},
        )
    )
    # New columns for a fragment, in place of an old file and next to it.
    path = f"{uri}/data/replaced.lance"
    with lance.file.LanceFileWriter(path, pa.schema([pa.field("twice", pa.int64())])) as writer:
        writer.write_batch(pa.table({"twice": pa.array(range(5), pa.int64())}))
    schema = open_().lance_schema
    commit(Op.Merge(fragments(), schema))
    files = fragments()[0].files
    for file in files:
        if list(file.fields) == [2]:
            replacement = lance.fragment.DataFile("replaced.lance", [2], [0], 2, 1, Path(path).stat().st_size)
            commit(Op.DataReplacement([Op.DataReplacementGroup(0, replacement)]))
    # Rows that bring their identity.
    appended = written(20, 23)
    commit(Op.Append(appended))
    if stable:
        # Row ids 8 and 9 and a new one; then the rows of another fragment move.
        open_().delete("id in (8, 9)")
        appended = written(30, 33)
        appended[0].row_id_meta = identified("0a060a040808100a")
        commit(Op.Append(appended))
        moved = fragments()[2]
        new = written(40, 43)
        new[0].row_id_meta = moved.row_id_meta
        commit(
            Op.Update(
                removed_fragment_ids=[moved.id],
                new_fragments=new,
                fields_for_preserving_frag_bitmap=[1],
                update_mode="rewrite_rows",
            )
        )
    # An index with a name that is taken, and one that is removed.
    again = Index(str(uuid.UUID(int=5)), "id_idx", [0], 2, {2}, int(stable), index_details=BTREE)
    commit(Op.CreateIndex([again], []))
    commit(Op.CreateIndex([], [again]))
    open_().add_bases([lance.DatasetBasePath("/base", "b", True)])
    commit(
        Op.Update(new_fragments=written(50, 52), fields_for_preserving_frag_bitmap=[0], update_mode="rewrite_rows")
    )
    commit(Op.Update(removed_fragment_ids=[1], new_fragments=written(60, 61), update_mode="rewrite_rows"))
    if not stable:
        commit(Op.Rewrite([Op.RewriteGroup(fragments()[-2:], written(50, 53))], []))
    commit(Op.Delete([], [0], "whole fragment"))
    commit(Op.Project(schema))


def main(out, work):
    for name, make in {"verbs": verbs, "raw": raw}.items():
        for stable in (True, False):
            kind = "stable" if stable else "addresses"
            uri = work / f"{name}-{kind}"
            try:
                make(uri, stable)
            finally:
                versions(uri, out / f"{name}-{kind}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        main(Path(sys.argv[1]), Path(work))
