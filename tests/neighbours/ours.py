"""Tables of Pennon, and what a release reads of them.

A table is made once, for all releases; each has the rows that it must have, in the order of a scan.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pennon
import pyarrow as pa
from pennon import blob
from support.compare import combined

from neighbours.neighbour import READS, Neighbour, RefusedError, difference
from neighbours.rows import ROWS_PER_FILE, Model, types

FILE_VERSIONS = ("2.0", "2.1", "2.2")
FIRST = "new, three fragments"

Options = dict[str, Any]
Make = Callable[[str, Model, Options], "Read | None"]


@dataclass
class Read:
    """What else is asked of a table."""

    version: str | None = None
    branch: str | None = None
    nearest: dict[str, Any] = field(default_factory=dict)
    indices: list[str] = field(default_factory=list)


@dataclass
class Made:
    """A table of Pennon."""

    name: str
    file_version: str
    stable: bool
    uri: str
    expected: pa.Table
    read: Read = field(default_factory=Read)


MAKERS: dict[str, Make] = {}


def made(name: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        MAKERS[name] = make
        return make

    return register


def new(uri: str, model: Model, options: Options, **more: Any) -> pennon.LanceDataset:
    data = model.table()
    return pennon.write_dataset(data, uri, **{"max_rows_per_file": ROWS_PER_FILE, **options, **more})


@made(FIRST)
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options)


@made("appended to")
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options).insert(model.append())


@made("few rows deleted")
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options).delete(model.delete(100, 7))
    assert {path.suffix for path in Path(uri, "_deletions").iterdir()} == {".arrow"}


@made("many rows deleted")
def _(uri: str, model: Model, options: Options) -> None:
    model.__init__(12_000)  # type: ignore[misc]
    new(uri, model, options, max_rows_per_file=12_000).delete(model.delete(2, 1))
    assert {path.suffix for path in Path(uri, "_deletions").iterdir()} == {".bin"}


@made("rows updated")
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options).update(**model.update(50, 3), mode="rewrite_rows")


@made("columns updated in place")
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options).update(**model.update(2, 1), mode="rewrite_columns")


@made("merged into")
def _(uri: str, model: Model, options: Options) -> None:
    merge = new(uri, model, options).merge_insert("id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute(model.merge())


@made("column added")
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options).add_columns(model.add_column())


@made("column dropped")
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options).drop_columns(model.drop_column())


@made("deleted, updated, compacted")
def _(uri: str, model: Model, options: Options) -> None:
    table = new(uri, model, options)
    table.delete(model.delete(10, 7))
    table.update(**model.update(50, 3))
    table.optimize.compact_files()


@made("overwritten")
def _(uri: str, model: Model, options: Options) -> None:
    table = new(uri, Model(50), options)
    table.delete("id = 3")
    table.insert(model.table(), mode="overwrite", max_rows_per_file=ROWS_PER_FILE)


@made("restored")
def _(uri: str, model: Model, options: Options) -> None:
    table = new(uri, model, options)
    table.delete("id % 3 = 1")
    table.checkout_version(1).restore()


@made("V1 names of manifests")
def _(uri: str, model: Model, options: Options) -> None:
    new(uri, model, options, enable_v2_manifest_paths=False).insert(model.append())


@made("config, metadata, a note of the commit")
def _(uri: str, model: Model, options: Options) -> None:
    table = new(uri, model, options, commit_message="first")
    table.update_config({"a": "b"})
    table.update_metadata({"owner": "me"})
    table.delete(model.delete(100, 7))


@made("version with a tag, by its name")
def _(uri: str, model: Model, options: Options) -> Read:
    table = new(uri, model, options)
    table.tags.create("first", 1)
    table.delete("id % 3 = 1")
    return Read(version="first")


@made("main, next to a branch")
def _(uri: str, model: Model, options: Options) -> None:
    table = new(uri, model, options)
    table.create_branch("dev").delete("id % 3 = 1")
    table.delete(model.delete(100, 7))


@made("branch")
def _(uri: str, model: Model, options: Options) -> Read:
    new(uri, model, options).create_branch("dev").delete(model.delete(3, 1))
    return Read(branch="dev")


@made("versions of rows in data files")
def _(uri: str, model: Model, options: Options) -> None:
    """Ids and versions that exceed a limit are stored as columns of data files."""
    table = new(uri, model, options)
    table.update_config({"lance.row_lineage.inline_max_bytes": "0"})
    table.update(**model.update(3, 1), mode="rewrite_rows")


@made("versions of rows kept in the manifest")
def _(uri: str, model: Model, options: Options) -> None:
    table = new(uri, model, options)
    table.update_config({"lance.row_lineage.inline_max_bytes": "0", "lance.row_lineage.spill": "false"})
    table.update(**model.update(3, 1), mode="rewrite_rows")


def _register_indices() -> None:
    values = {"BTREE": "id", "BITMAP": "text", "ZONEMAP": "id", "BLOOMFILTER": "id", "LABEL_LIST": "items"}
    vectors = {
        "IVF_FLAT": {},
        "IVF_PQ": {"num_sub_vectors": 8},
        "IVF_SQ": {},
        "IVF_HNSW_FLAT": {},
        "IVF_HNSW_PQ": {"num_sub_vectors": 8},
        "IVF_HNSW_SQ": {},
    }

    def of_values(kind: str, column: str) -> Make:
        def make(uri: str, model: Model, options: Options) -> Read:
            table = new(uri, model, options)
            table.create_scalar_index(column, kind)
            table.delete(model.delete(100, 7))
            table.insert(model.append())
            return Read(indices=[f"{column}_idx"])

        return make

    def of_vectors(kind: str, more: Options) -> Make:
        def make(uri: str, model: Model, options: Options) -> Read:
            table = new(uri, model, options)
            table.create_index("vec", kind, num_partitions=2, **more)
            table.delete(model.delete(100, 7))
            # One of the rows of the index and one that is not in it.
            wanted = {"column": "vec", "vector": model.rows[123]["vec"], "k": 5, "nprobes": 2}
            return Read(indices=["vec_idx"], nearest=wanted)

        return make

    for kind, column in values.items():
        MAKERS[f"index {kind}"] = of_values(kind, column)
    for kind, more in vectors.items():
        MAKERS[f"index {kind}"] = of_vectors(kind, more)


_register_indices()


def blobs(file_version: str) -> pa.Table:
    """Blobs of several sizes; those of file version 2.2 are blob v2."""
    rng = random.Random(3)
    sizes = [None, 0, 3, 1000, 70_000, None, 5_000_000, 12]
    values = [None if size is None else rng.randbytes(size) for size in sizes]
    ids = pa.array(range(len(sizes)), pa.int64())
    if file_version == "2.2":
        schema = pa.schema([pa.field("id", pa.int64()), blob.blob_field("b")])
        return pa.table([ids, blob.blob_array(values)], schema=schema)
    legacy = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    return pa.table([ids, pa.array(values, pa.large_binary())], schema=pa.schema([("id", pa.int64()), legacy]))


def bytes_of(blobs: pa.Table) -> pa.Table:
    values = blobs["b"].to_pylist()
    # A blob v2 is a struct of bytes or a URI.
    plain = [value["data"] if isinstance(value, dict) else value for value in values]
    return pa.table({"id": blobs["id"], "b": pa.array(plain, pa.binary())})


def tables(directory: Path) -> Iterator[Made]:
    """All tables: of rows, of types, of blobs."""
    for file_version in FILE_VERSIONS:
        for stable in (True, False):
            options = {"data_storage_version": file_version, "enable_stable_row_ids": stable}
            kind = "ids" if stable else "addresses"
            for name, make in MAKERS.items():
                uri, model = str(directory / f"{name}-{file_version}-{kind}"), Model()
                read = make(uri, model, options) or Read()
                expected = model.table()
                found = pennon.dataset(uri, version=("dev", None) if read.branch else read.version).to_table()
                assert difference(found, expected) == READS, (uri, difference(found, expected))
                yield Made(name, file_version, stable, uri, expected, read)
        for name, data in types().items():
            uri = str(directory / f"type-{name}-{file_version}")
            try:
                table = pennon.write_dataset(data, uri, data_storage_version=file_version)
            except pennon.PennonError:
                continue  # maps, before 2.2
            found = table.to_table()
            assert difference(found, data) in (READS, ""), (uri, difference(found, data))
            yield Made(f"type {name}", file_version, True, uri, data)
        uri, data = str(directory / f"blobs-{file_version}"), blobs(file_version)
        pennon.write_dataset(data, uri, data_storage_version=file_version)
        yield Made("blobs", file_version, True, uri, bytes_of(data))


def check(neighbour: Neighbour, made: Made) -> str:
    """The outcome of all that is asked of a table: the first that is not right, with what was asked."""
    if made.name == "blobs":
        # Releases differ in what they return for null.
        expected = made.expected.filter(made.expected["b"].is_valid())
        ids = expected["id"].to_pylist()
        return outcome(lambda: difference(neighbour.rows("blobs", uri=made.uri, column="b", indices=ids), expected))
    scanned = outcome(lambda: difference(scan(neighbour, made), made.expected))
    if scanned != READS or made.name.startswith("type"):
        return scanned
    asked = {"count": lambda: counted(neighbour, made)}
    if made.read.branch is None and made.read.version is None:
        asked |= {
            "filter": lambda: filtered(neighbour, made),
            "row ids": lambda: row_ids(neighbour, made),
            "take": lambda: taken(neighbour, made),
        }
    if made.read.nearest:
        asked["nearest"] = lambda: found_nearest(neighbour, made)
    if made.read.indices:
        asked["list of indices"] = lambda: listed(neighbour, made)
    outcomes = {name: outcome(ask) for name, ask in asked.items()}
    wrong = [f"{name} {outcome}" for name, outcome in outcomes.items() if outcome != READS]
    return "; ".join([READS, *wrong]) if wrong else READS


def outcome(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except RefusedError as error:
        return str(error)


def scan(neighbour: Neighbour, made: Made) -> pa.Table:
    if made.read.branch is not None:
        number = pennon.dataset(made.uri, version=(made.read.branch, None)).version
        return neighbour.rows("scan_branch", uri=made.uri, branch=made.read.branch, version=number)
    return neighbour.rows("scan", uri=made.uri, version=made.read.version)


def counted(neighbour: Neighbour, made: Made) -> str:
    if made.read.branch is not None or made.read.version is not None:
        return READS
    found = neighbour.ask("count", uri=made.uri), neighbour.ask("count", uri=made.uri, filter="id < 500")
    ids = made.expected["id"].to_pylist()
    expected = len(ids), len([id for id in ids if id < 500])
    return READS if found == expected else f"wrong: {found} instead of {expected}"


def filtered(neighbour: Neighbour, made: Made) -> str:
    expected = made.expected
    rows = expected.to_pylist()
    texts = {"row 250", "new", "merged", "row 5001"}
    filters = {
        "id >= 200 AND id < 260": [200 <= row["id"] < 260 for row in rows],
        "id = 5002 OR id = 107 OR id = 106": [row["id"] in (5002, 106, 107) for row in rows],
        "text IN ('row 250', 'new', 'merged', 'row 5001')": [row["text"] in texts for row in rows],
        "text IS NULL": [row["text"] is None for row in rows],
    }
    if "items_idx" in made.read.indices:
        filters["array_has_any(items, [2])"] = [2 in (row["items"] or []) for row in rows]
    for filter, mask in filters.items():
        found = difference(neighbour.rows("scan", uri=made.uri, filter=filter), expected.filter(pa.array(mask)))
        if found != READS:
            return f"{found} for {filter}"
    return READS


def row_ids(neighbour: Neighbour, made: Made) -> str:
    ours = pennon.dataset(made.uri).to_table(columns=["id"], with_row_id=True, with_row_address=True)
    found = neighbour.rows("scan", uri=made.uri, columns=["id"], with_row_id=True, with_row_address=True)
    return difference(found.select(ours.schema.names), ours)


def taken(neighbour: Neighbour, made: Made) -> str:
    count = made.expected.num_rows
    indices = sorted({0, 1, 7, 399, 400, count // 2, count // 3, count - 1})
    return difference(neighbour.rows("take", uri=made.uri, indices=indices), pennon.dataset(made.uri).take(indices))


def found_nearest(neighbour: Neighbour, made: Made) -> str:
    """All rows are in the partitions that are searched, and distances of candidates are computed from vectors."""
    asked = {**made.read.nearest, "refine_factor": 60}
    found = neighbour.rows("nearest", uri=made.uri, **asked).combine_chunks()
    data = combined(made.expected)
    vectors = np.array(data["vec"].to_pylist())
    distances = ((vectors - np.array(asked["vector"])) ** 2).sum(axis=1)
    ids = np.array(data["id"].to_pylist())
    exact = dict(zip(ids.tolist(), distances.tolist(), strict=True))
    got = [exact.get(id) for id in found["id"].to_pylist()]
    wanted = sorted(distances.tolist())[: asked["k"]]
    return READS if got == wanted else f"wrong: distances {got} instead of {wanted}"


def listed(neighbour: Neighbour, made: Made) -> str:
    names = neighbour.ask("indices", uri=made.uri)
    return READS if names == made.read.indices else f"has {names}"
