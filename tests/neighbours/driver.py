"""Does what `neighbour.py` asks for, in the environment of a release of pylance.

A request is a line of JSON, `[verb, arguments]`; so is the answer, `{"value": ...}` or `{"error": ...}`. Rows
travel in Arrow IPC files. Only the release, pyarrow and the standard library are here.
"""

import inspect
import json
import os
import sys

import lance
import pyarrow as pa


def load(path):
    with pa.OSFile(path) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all()


def save(table, path):
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def known(function, names, value):
    """The first of these parameters that the function has: their names changed."""
    parameters = inspect.signature(function).parameters
    return next(({name: value} for name in names if name in parameters), {})


def release():
    return lance.__version__


def scan(uri, out, version=None, **options):
    save(lance.dataset(uri, version=version).to_table(**options), out)


def scan_branch(uri, branch, version, out):
    save(lance.dataset(uri).checkout_version((branch, version)).to_table(), out)


def count(uri, filter=None):
    return lance.dataset(uri).count_rows(filter)


def take(uri, indices, out):
    save(lance.dataset(uri).take(indices), out)


def nearest(uri, column, vector, out, **options):
    query = {"column": column, "q": pa.array(vector, pa.float32()), **options}
    save(lance.dataset(uri).to_table(columns=["id"], nearest=query), out)


def blobs(uri, column, indices, out):
    dataset = lance.dataset(uri)
    ids = known(dataset.take_blobs, ["indices", "row_ids", "ids"], indices)
    blobs = dataset.take_blobs(**ids, blob_column=column)
    save(pa.table({"id": indices, "b": pa.array([blob and blob.readall() for blob in blobs], pa.binary())}), out)


def indices(uri):
    dataset = lance.dataset(uri)
    listed = dataset.describe_indices() if hasattr(dataset, "describe_indices") else dataset.list_indices()
    return sorted(index["name"] if isinstance(index, dict) else index.name for index in listed)


def write(uri, data, mode="create", file_version=None, stable=None, v2_paths=None, rows=400):
    options = {"mode": mode, "max_rows_per_file": rows, "max_rows_per_group": min(rows, 1024)}
    given = {} if stable is None else {"stable": stable}
    if stable is not None:
        given = known(lance.write_dataset, ["enable_stable_row_ids", "enable_move_stable_row_ids"], stable)
        if not given and stable:
            # A release without the feature: the error is what the table of readers reports of it.
            raise NotImplementedError("no stable row ids")
    if v2_paths is not None:
        given |= known(lance.write_dataset, ["enable_v2_manifest_paths"], v2_paths)
    if file_version is not None:
        given["data_storage_version"] = file_version
    lance.write_dataset(load(data), uri, **options, **given)


def delete(uri, where):
    lance.dataset(uri).delete(where)


def update(uri, updates, where):
    lance.dataset(uri).update(updates, where=where)


def merge(uri, data):
    builder = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(load(data))


def compact(uri):
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100_000)


def add_columns(uri, expressions):
    lance.dataset(uri).add_columns(expressions)


def drop_columns(uri, names):
    lance.dataset(uri).drop_columns(names)


def restore(uri, version):
    lance.dataset(uri, version=version).restore()


def tag(uri, name, version):
    lance.dataset(uri).tags.create(name, version)


def branch(uri, name):
    lance.dataset(uri).create_branch(name)


def index(uri, column, kind, **options):
    dataset = lance.dataset(uri)
    if kind.startswith("IVF"):
        dataset.create_index(column, kind, **options)
    else:
        dataset.create_scalar_index(column, kind)


def optimize_indices(uri):
    lance.dataset(uri).optimize.optimize_indices()


VERBS = {name: value for name, value in list(globals().items()) if inspect.isfunction(value)}


def main():
    # What the release prints must not get among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        try:
            answer = {"value": VERBS[verb](**arguments)}
        except BaseException as error:  # a panic is not an Exception
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


main()
