"""After a soak: no fault in the table, and of its files those that no version refers to are named and removed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon

LONG_AGO = timedelta(days=10_000)


class FilesError(Exception):
    """A file is neither needed nor named, or it is needed and gone."""


def listed(uri: str, options: dict[str, str]) -> set[str]:
    """All files below the table, by whatever means there are but Pennon's."""
    if "://" not in uri:
        return {str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file()}
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        region_name=options["aws_region"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
    )
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    return {entry["Key"].removeprefix(f"{prefix}/") for page in pages for entry in page.get("Contents", [])}


def needed(uri: str, options: dict[str, str], files: set[str]) -> set[str]:
    """The files that the versions refer to, as the reference reads them."""
    newest = lance.dataset(uri, storage_options=options or None)
    newest_of_ours = pennon.dataset(uri, storage_options=options or None)
    found = {file for file in files if file.startswith(("_versions/", "_refs/"))}
    for entry in newest.versions():
        table = newest.checkout_version(entry["version"])
        for fragment in table.get_fragments():
            found |= {f"data/{file.path}" for file in fragment.data_files()}
            deletions = fragment.deletion_file()
            found |= set() if deletions is None else {deletions}
        indices = {f"_indices/{index['uuid']}/" for index in table.list_indices()}
        found |= {file for file in files if file.startswith(tuple(indices))} if indices else set()
        # The reference cannot read the transaction of a compaction that moved rows of an index.
        transaction = newest_of_ours.read_transaction(entry["version"])
        # Not what a writer that was killed left of an attempt that lost.
        found |= files & {f"_transactions/{transaction.read_version}-{transaction.uuid}.txn"}
    # What a process that was killed has begun. Cleanup leaves all that is in _refs.
    return {file for file in found if file.startswith("_refs/") or not Path(file).name.startswith(".tmp")}


def tidied(table: Any, home: Path, options: dict[str, str]) -> None:
    """Branches and clones of writers that were killed are removed, and files of branches that were half removed."""
    files = listed(table.uri, options)
    for name in {*table.branches.list(), *(file.split("/")[1] for file in files if file.startswith("tree/"))}:
        table.branches.delete(name)
    if "://" not in table.uri:
        for clone in home.glob("clone-*"):
            pennon.LanceDataset.drop(clone)
        return
    for clone in {name.split("/")[0] for name in listed(f"{table.uri}-clones", options)}:
        pennon.LanceDataset.drop(f"{table.uri}-clones/{clone}", options)


def check_files(uri: str, options: dict[str, str], home: Path) -> Counter[str]:
    known = {"storage_options": options} if options else {}
    table = pennon.dataset(uri, **known)
    tidied(table, home, options)
    report = pennon.verify(uri, data=True, **known)
    if not report.ok:
        raise FilesError(str(report))
    files = listed(uri, options)
    orphans = files - needed(uri, options, files)
    explained = table.explain_cleanup_old_versions(LONG_AGO, delete_unverified=True).files.to_pylist()
    named = {row["path"] for row in explained if row["removed"]}
    same("files that no version needs, and those that cleanup names", orphans, named)
    # The reference leaves files such as `5.manifest#1` when it is killed, which a cleanup leaves too.
    counted = sum(leftover.files for leftover in report.leftovers if leftover.reason != "foreign")
    if counted != len(orphans):
        raise FilesError(f"verify has {counted} leftovers, there are {len(orphans)}: {report}, {sorted(orphans)}")
    table.cleanup_old_versions(LONG_AGO, delete_unverified=True)
    same("files after a cleanup of what no version needs", files - orphans, listed(uri, options))
    table.cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
    left = listed(uri, options)
    same("files after a cleanup of old versions", needed(uri, options, left), left)
    if not pennon.verify(uri, data=True, **known).ok:
        raise FilesError("verify finds a fault after the cleanup")
    return Counter({"orphans": len(orphans)})


def same(what: str, expected: set[str], found: set[str]) -> None:
    if expected != found:
        raise FilesError(
            f"{what}: only in the first {sorted(expected - found)}, only in the second {sorted(found - expected)}"
        )
