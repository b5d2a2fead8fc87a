"""What a release writes, to tables of its own and of Pennon, and what Pennon reads of it.

Each table goes through the same steps: it is made, the release changes it, both read it, Pennon changes it, and
both read it again. The outcome is `reads`, or the first step that went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa

from neighbours.neighbour import READS, Neighbour, RefusedError, difference, first_words
from neighbours.ours import bytes_of, new
from neighbours.rows import ROWS_PER_FILE, Model, table_of, types

LEGACY = "0.1"
FILE_VERSIONS = (LEGACY, "2.0", "2.1", "2.2")
FIRST = "nothing more"

Change = Callable[[Neighbour, str, Model], None]

CHANGES: dict[str, Change] = {}


class WentWrongError(Exception):
    """A step went wrong; the text is the outcome."""


def change(name: str) -> Callable[[Change], Change]:
    def register(function: Change) -> Change:
        CHANGES[name] = function
        return function

    return register


@change(FIRST)
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    pass


@change("append")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("write", uri=uri, data=neighbour.give(model.append()), mode="append")


@change("delete of few rows")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("delete", uri=uri, where=model.delete(100, 9))


@change("delete of many rows")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    rows = [{**model.rows[0], "id": id} for id in range(10_000, 22_000)]
    model.rows |= {row["id"]: row for row in rows}
    data = neighbour.give(table_of(rows))
    neighbour.ask("write", uri=uri, data=data, mode="append", rows=20_000)
    neighbour.ask("delete", uri=uri, where=model.delete(2, 1))


@change("update")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("update", uri=uri, **model.update(50, 4))


@change("merge")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("merge", uri=uri, data=neighbour.give(model.merge()))


@change("new column")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("add_columns", uri=uri, expressions=model.add_column())


@change("dropped column")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("drop_columns", uri=uri, names=model.drop_column())


@change("delete, update, compaction")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("delete", uri=uri, where=model.delete(10, 8))
    neighbour.ask("update", uri=uri, **model.update(50, 4))
    neighbour.ask("compact", uri=uri)


@change("overwrite")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    model.__init__(700, model.is_legacy)  # type: ignore[misc]
    neighbour.ask("write", uri=uri, data=neighbour.give(model.table()), mode="overwrite")


@change("restore")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    version = pennon.dataset(uri).version
    neighbour.ask("delete", uri=uri, where="id % 3 = 1")
    neighbour.ask("restore", uri=uri, version=version)


@change("tag")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    version = pennon.dataset(uri).version
    neighbour.ask("tag", uri=uri, name="first", version=version)
    expect(ours(lambda: difference(pennon.dataset(uri, version="first").to_table(), model.table())))


@change("branch")
def _(neighbour: Neighbour, uri: str, model: Model) -> None:
    neighbour.ask("branch", uri=uri, name="dev")
    expect(ours(lambda: difference(pennon.dataset(uri, version=("dev", None)).to_table(), model.table())))


def _register_indices() -> None:
    def of(column: str, kind: str, options: dict[str, Any]) -> Change:
        def make(neighbour: Neighbour, uri: str, model: Model) -> None:
            neighbour.ask("index", uri=uri, column=column, kind=kind, **options)
            if column == "vec":
                expect(ours(lambda: nearest(uri, model)))

        return make

    parts = {"num_partitions": 2}
    for kind, column, options in [
        ("BTREE", "id", {}),
        ("BITMAP", "text", {}),
        ("LABEL_LIST", "items", {}),
        ("IVF_PQ", "vec", {**parts, "num_sub_vectors": 8}),
        ("IVF_HNSW_SQ", "vec", parts),
    ]:
        CHANGES[f"index {kind}"] = of(column, kind, options)


_register_indices()


def nearest(uri: str, model: Model) -> str:
    """What Pennon finds by the index, against what it finds by looking at all vectors."""
    query = {"column": "vec", "q": model.rows[123]["vec"], "k": 5, "metric": "l2"}
    query |= {"refine_factor": 60, "nprobes": 2}
    table = pennon.dataset(uri)
    found, exact = (
        table.to_table(columns=["_distance"], nearest={**query, "use_index": use})["_distance"].to_pylist()
        for use in (True, False)
    )
    return READS if found == exact else f"wrong: distances {found} instead of {exact}"


def expect(outcome: str) -> None:
    if outcome != READS:
        raise WentWrongError(outcome)


def ours(read: Callable[[], str]) -> str:
    try:
        outcome = read()
    except pennon.PennonError as error:
        return f"Pennon refuses: {first_words(str(error))}"
    return outcome if outcome == READS else f"Pennon reads {outcome}"


def both_read(neighbour: Neighbour, uri: str, model: Model, who: str) -> None:
    """Pennon and the release read what they must."""
    expected = model.table()
    try:
        own = difference(neighbour.rows("scan", uri=uri), expected)
    except RefusedError as error:
        own = str(error)
    found = ours(lambda: read(uri, model, expected))
    if own != READS:
        agrees = "; Pennon reads the rows" if found == READS else f"; {found}"
        raise WentWrongError(f"{own}, of {who}{agrees}")
    expect(found)


def read(uri: str, model: Model, expected: pa.Table) -> str:
    table = pennon.dataset(uri)
    found = difference(table.to_table(), expected)
    if found == READS and table.count_rows() != len(model.rows):
        found = f"wrong: counts {table.count_rows()} rows instead of {len(model.rows)}"
    for filter, ids in {
        "id >= 200 AND id < 260": [id for id in model.rows if 200 <= id < 260],
        "text IS NULL": [id for id, row in model.rows.items() if row["text"] is None],
    }.items():
        if found == READS and sorted(table.to_table(filter=filter)["id"].to_pylist()) != sorted(ids):
            found = f"wrong rows for {filter}"
    if found == READS:
        table.validate()
        report = pennon.verify(uri)
        found = READS if report.ok else f"damage: {first_words(str(report))}"
    return found


def steps(neighbour: Neighbour, name: str, uri: str, model: Model) -> str:
    """Both change a table in turns."""
    try:
        try:
            CHANGES[name](neighbour, uri, model)
        except RefusedError as error:
            return f"not done: {error}"
        both_read(neighbour, uri, model, "its own table")
        if name == FIRST:
            return READS
        table = pennon.dataset(uri, durability="os")
        table.delete(model.delete(100, 21))
        if model.is_legacy:
            both_read(neighbour, uri, model, "Pennon's delete")
            # No other data files are written next to those of version 0.1; all releases know those of 2.0.
            table.optimize.compact_files(data_storage_version="2.0")
        table.update(**model.update(40, 5))
        if model.schema == Model().schema:
            table.insert(model.append(start=8000, count=50))
        both_read(neighbour, uri, model, "Pennon's changes")
    except WentWrongError as error:
        return str(error)
    except pennon.PennonError as error:
        return f"Pennon refuses: {first_words(str(error))}"
    return READS


def outcomes(neighbour: Neighbour, directory: Path) -> Iterator[tuple[str, str, str]]:
    """Of tables of the release: file version, case and outcome."""
    inputs = {name: (data, neighbour.give(data)) for name, data in types().items()}
    for file_version in FILE_VERSIONS:
        read = False
        for stable in (True, False):
            kind = "ids" if stable else "addresses"
            for name in CHANGES:
                uri = str(directory / f"their {name} {file_version} {kind}")
                model = Model(is_legacy=file_version == LEGACY)
                data = neighbour.give(model.table())
                try:
                    neighbour.ask("write", uri=uri, data=data, file_version=file_version, stable=stable)
                except RefusedError as error:
                    yield file_version, f"{kind}: {name}", f"not done: {error}"
                    break
                outcome = steps(neighbour, name, uri, model)
                yield file_version, f"{kind}: {name}", outcome
                read = read or not ("Pennon refuses" in outcome or outcome.startswith("not done"))
                if name == FIRST and outcome != READS:
                    break
        if not read:
            continue
        for v2 in (True, False):
            uri, model = str(directory / f"names {v2} {file_version}"), Model(500, file_version == LEGACY)
            yield file_version, f"V{1 + v2} names of manifests", named(neighbour, uri, model, file_version, v2)
        if file_version == LEGACY:
            # Values of all types have nulls among them; `tests/parity/test_legacy_files.py` has those without.
            continue
        yield file_version, "blobs", blobs(neighbour, str(directory / f"blobs {file_version}"), file_version)
        for name, (data, path) in inputs.items():
            uri = str(directory / f"their type {name} {file_version}")
            yield file_version, f"type {name}", of_type(neighbour, uri, file_version, data, path)


def named(neighbour: Neighbour, uri: str, model: Model, file_version: str, v2: bool) -> str:
    data = neighbour.give(model.table())
    try:
        neighbour.ask("write", uri=uri, data=data, file_version=file_version, v2_paths=v2)
    except RefusedError as error:
        return f"not done: {error}"
    return steps(neighbour, "append", uri, model)


def of_type(neighbour: Neighbour, uri: str, file_version: str, data: pa.Table, path: str) -> str:
    try:
        neighbour.ask("write", uri=uri, data=path, file_version=file_version, rows=1 << 20)
    except RefusedError as error:
        return f"not done: {error}"
    try:
        own = difference(neighbour.rows("scan", uri=uri), data)
    except RefusedError as error:
        own = str(error)
    found = ours(lambda: difference(pennon.dataset(uri).to_table(), data))
    return found if own == READS else f"{own}, of its own table; {found if found != READS else 'Pennon reads it'}"


def blobs(neighbour: Neighbour, uri: str, file_version: str) -> str:
    """Legacy blobs, which this release writes to any file version that has them."""
    values = [b"", b"abc", None, b"x" * 100_000, b"y" * 7]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.table(
        [pa.array(range(5), pa.int64()), pa.array(values, pa.large_binary())],
        schema=pa.schema([("id", pa.int64()), field]),
    )
    try:
        neighbour.ask("write", uri=uri, data=neighbour.give(data), file_version=file_version)
    except RefusedError as error:
        return f"not done: {error}"
    return ours(
        lambda: difference(
            bytes_of(pennon.dataset(uri).to_table(blob_handling="all_binary")),
            bytes_of(data),
        )
    )


def outcomes_in_ours(
    neighbour: Neighbour, directory: Path, readable: set[tuple[str, bool]]
) -> Iterator[tuple[str, str, str]]:
    """Of changes of the release to tables of Pennon that it can read: file version, case and outcome."""
    for file_version, stable in sorted(readable):
        for name in CHANGES:
            if name == FIRST:
                continue
            kind = "ids" if stable else "addresses"
            uri, model = str(directory / f"our {name} {file_version} {kind}"), Model()
            options = {"data_storage_version": file_version, "enable_stable_row_ids": stable}
            table = new(uri, model, options, durability="os", max_rows_per_file=ROWS_PER_FILE)
            table.delete(model.delete(100, 7))
            table.update(**model.update(50, 3))
            yield file_version, f"{kind}: {name}", steps(neighbour, name, uri, model)
