"""`pennon.dataset`, the function: opening a table."""

from __future__ import annotations

from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from pennon._options import deprecated
from pennon.dataset import LanceDataset
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon.session import Session
    from pennon.types import CommitLock, Durability, Reference

__all__ = ["dataset"]


def dataset(
    uri: str | PathLike[str] | None = None,
    version: Reference | None = None,
    asof: datetime | str | None = None,
    block_size: int | None = None,
    commit_lock: CommitLock | None = None,
    index_cache_size: int | None = None,
    storage_options: dict[str, str] | None = None,
    default_scan_options: dict[str, Any] | None = None,
    metadata_cache_size_bytes: int | None = None,
    index_cache_size_bytes: int | None = None,
    read_params: dict[str, Any] | None = None,
    session: Session | None = None,
    namespace_client: Any | None = None,
    table_id: list[str] | None = None,
    base_store_params: dict[str, dict[str, str]] | None = None,
    *,
    durability: Durability = "full",
    commit_timeout: timedelta | None = None,
    max_retries: int | None = None,
) -> LanceDataset:
    """Open a table.

    Parameters
    ----------
    uri
        A local path, or a URI with the scheme `file`, `memory`, `s3`, `gs` or `az`; `s3+ddb` and `file+sqlite` name
        the versions in an external store.
    version
        The version by number or tag; the newest if not given.
    asof
        Open the newest version that was committed at or before this time; naive times are local. Ignored if
        `version` is given.
    storage_options
        Keys and values for the object store.
    default_scan_options
        Options that every scan of the dataset starts from, by the names of the parameters of
        [LanceDataset.scanner][pennon.LanceDataset.scanner]. Fragments, counts and changes do not use them.
    metadata_cache_size_bytes
        Bytes of metadata to keep in memory, without a session.
    commit_lock
        A function from a version number to a context manager. Commits through this dataset, and through datasets
        made from it, hold it while they write the manifest of that version.
    durability
        What commits through this dataset survive: a power cut (`"full"`), or a crash of the process (`"os"`).
    commit_timeout
        For every change through this dataset: no retry of its commit starts after this time. Default: 30 minutes.
    max_retries
        For every change through this dataset: attempts of its commit while other writers commit first, at least 1.
        Default: 20.
    block_size, index_cache_size_bytes
        Accepted, without effect.
    index_cache_size
        Deprecated: use `index_cache_size_bytes`.
    read_params
        `cache_repetition_index` and `validate_on_decode`, true or false: accepted, without effect on what is read.
    session
        Caches to share with other tables; without one the table gets its own.
    namespace_client, table_id, base_store_params
        Not supported.

    Raises
    ------
    pennon.NotFoundError
        There is no such table, version, tag or branch.
    pennon.InvalidInputError
        Every version is younger than `asof`.

    Examples
    --------
    >>> import pennon
    >>> _ = pennon.write_dataset({"a": [1, 2]}, "memory://open", mode="overwrite")
    >>> pennon.dataset("memory://open")
    LanceDataset('memory://open', version=1, rows=2)
    """
    if uri is None:
        raise InvalidInputError("A uri is required: namespaces are not supported")
    if index_cache_size is not None:
        deprecated("index_cache_size", "index_cache_size_bytes")
    return LanceDataset(
        uri,
        version,
        asof=asof,
        block_size=block_size,
        commit_lock=commit_lock,
        storage_options=storage_options,
        default_scan_options=default_scan_options,
        metadata_cache_size_bytes=metadata_cache_size_bytes,
        index_cache_size_bytes=index_cache_size_bytes,
        read_params=read_params,
        session=session,
        namespace_client=namespace_client,
        table_id=table_id,
        base_store_params=base_store_params,
        durability=durability,
        commit_timeout=commit_timeout,
        max_retries=max_retries,
    )
