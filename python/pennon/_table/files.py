"""The files of a table: all in its folders, and those that its versions refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from pennon import _native
from pennon.cleanup import explanation, options
from pennon.metadata import FragmentMetadata

_ALL = pa.schema(
    [
        pa.field("base_uri", pa.dictionary(pa.int32(), pa.utf8()), nullable=False),
        pa.field("path", pa.utf8(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
_TRACKED = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("base_uri", pa.dictionary(pa.int32(), pa.utf8()), nullable=False),
        pa.field("path", pa.utf8(), nullable=False),
        pa.field("type", pa.dictionary(pa.int8(), pa.utf8()), nullable=False),
    ]
)
# Names of manifests count down from here where the newest is listed first.
_NEWEST_FIRST = 2**64 - 1

Progress = Callable[[int, int | None], object]


def all_files(table: _native.Dataset) -> pa.RecordBatchReader:
    """The files in the folders of a table, by their paths."""
    found = _listed(table)
    columns = {name: found[name] for name in ("path", "size_bytes", "last_modified")}
    named = pa.table({"base_uri": pa.array([table.uri] * found.num_rows, pa.utf8()), **columns})
    return named.cast(_ALL).to_reader()


def tracked_files(
    table: _native.Dataset, min_version: int | None, progress: Progress | None
) -> pa.RecordBatchReader:
    """The files that the versions of a table refer to, one batch for each version."""
    paths = set(_listed(table)["path"].to_pylist())
    manifests = {_version_of(path): path for path in paths if path.endswith(".manifest")}
    chosen = [entry["version"] for entry in table.versions() if entry["version"] >= (min_version or 0)]

    def batches() -> Iterator[pa.RecordBatch]:
        for done, version in enumerate(chosen, 1):
            files = list(_files_of(table.checkout(version), manifests.get(version), paths))
            bases, names, types = zip(*files, strict=True) if files else ((), (), ())
            columns = {
                "version": pa.array([version] * len(files), pa.int64()),
                "base_uri": pa.array(bases, pa.utf8()),
                "path": pa.array(names, pa.utf8()),
                "type": pa.array(types, pa.utf8()),
            }
            yield from pa.table(columns).cast(_TRACKED).to_batches()
            if progress is not None:
                progress(done, len(chosen))

    return pa.RecordBatchReader.from_batches(_TRACKED, batches())


def _listed(table: _native.Dataset) -> pa.Table:
    """The files, as a cleanup that removes nothing lists them."""
    nothing = options(None, None, False, False, None, [])
    return explanation(_native.explain_cleanup(table, nothing), False, 0).files


def _files_of(table: _native.Dataset, manifest: str | None, paths: set[str]) -> Iterator[tuple[str, str, str]]:
    bases = {base["id"]: base for base in _native.base_paths(table)}

    def placed(base_id: int | None, folder: str, name: str) -> tuple[str, str]:
        if base_id is None:
            return table.uri, folder + name
        base = bases[base_id]
        return base["path"], (folder if base["is_dataset_root"] else "") + name

    if manifest is not None:
        yield table.uri, manifest, "manifest"
    transaction = table.read_transaction(table.version)
    if transaction is not None:
        path = f"_transactions/{transaction['read_version']}-{transaction['uuid']}.txn"
        if path in paths:
            yield table.uri, path, "transaction file"
    for parts in (fragment.parts for fragment in table.fragments):
        fragment = FragmentMetadata._of(parts)
        for file in fragment.files:
            yield *placed(file.base_id, "data/", file.path), "data file"
        deletions = fragment.deletion_file
        if deletions is not None:
            yield *placed(deletions.base_id, "", deletions.path(fragment.id)), "deletion file"
    for index in _native.describe_indices(table):
        for entry in (segment["entry"] for segment in index["segments"]):
            folder = f"_indices/{entry['uuid']}/"
            names = [folder + file["path"] for file in entry["files"] or ()]
            if not names and entry["base_id"] is None:
                # Older releases of pylance record no files.
                names = sorted(path for path in paths if path.startswith(folder))
            for name in names:
                yield *placed(entry["base_id"], "", name), "index file"


def _version_of(manifest: str) -> int | None:
    """The version of a manifest by its name; `None` for one outside of the history."""
    name = manifest.rpartition("/")[2].removesuffix(".manifest")
    if not name.isdigit():
        return None
    return _NEWEST_FIRST - int(name) if len(name) == 20 else int(name)
