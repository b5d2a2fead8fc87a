"""Datasets of PyTorch that read tables.

[LanceDataset][pennon.torch.data.LanceDataset] gives tensors batch by batch, and each process its share;
[SafeLanceDataset][pennon.torch.data.SafeLanceDataset] gives rows by position, to the processes of a `DataLoader`.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.ipc

from pennon._compatibility import explain_absent_names
from pennon._optional import require
from pennon._options import checked_number, deprecated, refuse_unknown
from pennon._sample import opened
from pennon._table.rows import take
from pennon.errors import InvalidInputError, PositionError
from pennon.hf import HuggingFaceConverter
from pennon.sampler import (
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFragmentSampler,
    maybe_sample,
    rebatched,
)
from pennon.torch._tensors import to_tensor
from pennon.torch.dist import get_global_rank, get_global_world_size

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset as Table
    from pennon.types import Columns

__all__ = [
    "FullScanSampler",
    "LanceDataset",
    "SafeLanceDataset",
    "get_global_rank",
    "get_global_world_size",
    "get_safe_loader",
]

explain_absent_names(__name__)

_READAHEAD = 16


def _class_of_torch(name: str) -> Any:
    """A class to derive from; without PyTorch this module can be imported, and its classes cannot be used."""
    try:
        return getattr(importlib.import_module("torch.utils.data"), name)
    except ModuleNotFoundError:
        return object


_Dataset: Any = _class_of_torch("Dataset")
_IterableDataset: Any = _class_of_torch("IterableDataset")


class LanceDataset(_IterableDataset):
    """A table as a `torch.utils.data.IterableDataset`, which gives batches of tensors.

    Each process of `torch.distributed`, and of those each worker of a `DataLoader`, reads its share of the table.

    Parameters
    ----------
    dataset
        A dataset, or where it is.
    batch_size
        Rows of a batch. Only the last one has fewer, except with a `sampler` or `shard_granularity="batch"`.
    dataset_options
        Keyword arguments of [pennon.dataset][pennon.dataset], if `dataset` says where it is.
    columns, filter, with_row_id, batch_readahead
        As in [LanceDataset.scanner][pennon.LanceDataset.scanner].
    samples
        If positive, that many random rows instead of all, by [maybe_sample][pennon.sampler.maybe_sample]; they are
        not shared out.
    cache
        Whether the first complete iteration keeps the rows in a temporary file, from which later ones read; or the
        directory for this file.
    rank, world_size
        Which share to read, both or neither; by default as PyTorch says.
    shard_granularity
        What is shared out: `"fragment"`, the default, or `"batch"`.
    to_tensor_fn
        Makes what is given of a record batch; `None` gives the batches. It is called with the keywords
        `hf_converter` and `use_blob_api` as well. For a table whose schema has features of Hugging Face,
        `hf_converter` is a [HuggingFaceConverter][pennon.hf.HuggingFaceConverter], which makes images of their
        columns. For columns with legacy blobs `use_blob_api` is true: instead of a record batch there is a dict by
        the names of columns, with `_rowid`, and lists of [BlobFile][pennon.BlobFile] for the blobs.
    sampler
        Reads the batches in an order of its own, and shares them out itself.
    auto_detect_rank
        Whether PyTorch is asked for `rank` and `world_size` if they are not given.
    *args, **kwargs
        Refused.

    Raises
    ------
    pennon.InvalidInputError
        One of `rank` and `world_size` is missing, the granularity is unknown, a number is out of range, or both
        `samples` and `sampler` are given.
    pennon.MissingPackageError
        PyTorch is not installed.

    Examples
    --------
    >>> import pennon
    >>> from pennon.torch.data import LanceDataset
    >>> table = pennon.write_dataset({"a": [0, 1, 2, 3, 4]}, "memory://torch", mode="overwrite")
    >>> [batch.tolist() for batch in LanceDataset(table, batch_size=2, filter="a > 0")]
    [[1, 2], [3, 4]]
    """

    def __init__(
        self,
        dataset: str | PathLike[str] | Table,
        batch_size: int,
        *args: Any,
        dataset_options: dict[str, Any] | None = None,
        columns: Columns | None = None,
        filter: str | None = None,
        samples: int | None = 0,
        cache: str | bool | None = None,
        with_row_id: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        shard_granularity: Literal["fragment", "batch"] | None = None,
        batch_readahead: int = _READAHEAD,
        to_tensor_fn: Callable[..., Any] | None = to_tensor,
        sampler: Sampler | None = None,
        auto_detect_rank: bool = True,
        **kwargs: Any,
    ) -> None:
        refuse_unknown("LanceDataset", args, kwargs)
        require("torch", "torch", "pennon.torch.data.LanceDataset")
        super().__init__()
        if batch_size < 1 or (samples or 0) < 0:
            raise InvalidInputError(f"batch_size is {batch_size}, samples {samples}: expected 1 or more, 0 or more")
        if (rank is None) != (world_size is None):
            raise InvalidInputError(f"rank is {rank}, world_size is {world_size}: expected both or neither")
        if rank is not None:
            deprecated("rank", "a sampler")
        if shard_granularity not in (None, "fragment", "batch"):
            raise InvalidInputError(f"shard_granularity is {shard_granularity!r}, expected 'fragment' or 'batch'")
        if samples and sampler is not None:
            raise InvalidInputError("Found both samples and a sampler, expected one of them")
        self.dataset = opened(dataset, dataset_options)
        self.batch_size = batch_size
        self.columns = columns
        self.filter = filter
        self.samples = samples or 0
        self.cache = cache
        self.with_row_id = with_row_id
        self.rank = rank
        self.world_size = world_size
        self.shard_granularity = shard_granularity
        self.batch_readahead = batch_readahead
        self.sampler = sampler
        self._to_tensor_fn = to_tensor_fn
        features = (self.dataset.schema.metadata or {}).get(b"huggingface")
        self._hf_converter = None if features is None else HuggingFaceConverter(json.loads(features))
        self._auto_detect_rank = auto_detect_rank
        self._cached: _Cache | None = None
        self._shard()

    def __repr__(self) -> str:
        return f"LanceDataset({self.dataset.uri!r}, batch_size={self.batch_size})"

    def __getstate__(self) -> dict[str, Any]:
        # The worker of a loader has a file of its own.
        return {**self.__dict__, "_cached": None}

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns.

        Examples
        --------
        >>> import pennon
        >>> from pennon.torch.data import LanceDataset
        >>> table = pennon.write_dataset({"a": [0, 1], "b": [2, 3]}, "memory://torch-schema", mode="overwrite")
        >>> LanceDataset(table, batch_size=2, columns=["a"]).schema.names
        ['a']
        """
        if self.columns is None:
            return self.dataset.schema
        return self.dataset.scanner(self.columns).projected_schema

    def __iter__(self) -> Iterator[Any]:
        blobs = self._legacy_blobs()
        for batch in self._batches():
            rows: Any = batch
            if blobs:
                ids = batch["_rowid"].to_pylist()
                files = {name: self.dataset.take_blobs(name, ids=ids) for name in blobs}
                rows = {**dict(zip(batch.schema.names, batch.columns, strict=True)), **files}
            if self._to_tensor_fn is not None:
                rows = self._to_tensor_fn(rows, hf_converter=self._hf_converter, use_blob_api=bool(blobs))
            yield rows

    def _legacy_blobs(self) -> list[str]:
        """The columns with legacy blobs among those that are read: their bytes are not read with the others."""
        if isinstance(self.columns, Mapping):
            return []
        return [
            field.name
            for field in self.dataset.schema
            if (self.columns is None or field.name in self.columns)
            and field.type == pa.large_binary()
            and (field.metadata or {}).get(b"lance-encoding:blob") == b"true"
        ]

    def _batches(self) -> Iterable[pa.RecordBatch]:
        if not self.cache:
            return self._read()
        if self._cached is None:
            self._cached = _Cache(self.cache if isinstance(self.cache, str) else None)
        return self._cached.through(self._read)

    def _read(self) -> Iterator[pa.RecordBatch]:
        columns, with_row_id = self.columns, self.with_row_id
        if blobs := self._legacy_blobs():
            names = self.dataset.schema.names if columns is None else columns
            columns, with_row_id = [name for name in names if name not in blobs], True
        options: dict[str, Any] = {"batch_size": self.batch_size, "columns": columns, "filter": self.filter}
        if self.samples:
            columns = self.schema.names if columns is None else columns
            if with_row_id:
                columns = {**columns, "_rowid": "_rowid"} if isinstance(columns, Mapping) else [*columns, "_rowid"]
            return maybe_sample(self.dataset, self.samples, columns, self.batch_size, filt=self.filter)
        options.update(with_row_id=with_row_id)
        if self.batch_readahead != _READAHEAD:
            # It warns that it has no effect, which only concerns those who give it.
            options.update(batch_readahead=self.batch_readahead)
        if self.sampler is not None:
            return self.sampler(self.dataset, **options)
        shard = self._shard()
        if isinstance(shard, ShardedBatchSampler):
            return shard(self.dataset, **options)
        read = self.dataset.to_batches(**options) if shard is None else shard(self.dataset, **options)
        return rebatched(read, self.batch_size)

    def _shard(self) -> ShardedFragmentSampler | ShardedBatchSampler | None:
        """What reads the share of this process; nothing if it reads all."""
        rank, world_size = self.rank, self.world_size
        if rank is None or world_size is None:
            if not self._auto_detect_rank:
                return None
            rank, world_size = get_global_rank(), get_global_world_size()
            if world_size == 1:
                return None
        kind = ShardedBatchSampler if self.shard_granularity == "batch" else ShardedFragmentSampler
        return kind(rank, world_size)


class SafeLanceDataset(_Dataset):
    """The rows of a table by position, as a `torch.utils.data.Dataset` that processes can be given.

    It is pickled as where the table is and its version; each process opens it when it reads the first row.

    Parameters
    ----------
    uri
        Where the table is.
    dataset_options
        Keyword arguments of [pennon.dataset][pennon.dataset].

    Raises
    ------
    pennon.NotFoundError
        There is no table.
    pennon.InvalidInputError
        `uri` is neither text nor a path, or there are other arguments.
    pennon.MissingPackageError
        PyTorch is not installed.

    Examples
    --------
    >>> import pennon
    >>> from pennon.torch.data import SafeLanceDataset
    >>> table = pennon.write_dataset({"a": [0, 1, 2]}, "memory://torch-rows", mode="overwrite")
    >>> rows = SafeLanceDataset("memory://torch-rows")
    >>> len(rows), rows[-1]
    (3, {'a': 2})
    """

    def __init__(
        self, uri: str | PathLike[str], *, dataset_options: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        require("torch", "torch", "pennon.torch.data.SafeLanceDataset")
        super().__init__()
        if kwargs:
            raise InvalidInputError(
                f"Found the arguments {', '.join(sorted(kwargs))}, expected dataset_options only"
            )
        if not isinstance(uri, str | PathLike):
            raise InvalidInputError(f"The uri is a {type(uri).__name__}, expected text or a path")
        table = opened(uri, dataset_options)
        self.uri = table.uri
        # All processes read one version, whatever tag or time named it.
        self.dataset_options: dict[str, Any] = {**(dataset_options or {}), "version": table.version}
        self.dataset_options.pop("asof", None)
        self._len = table.count_rows()
        self._ds: Table | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ds": None}

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, idx: int) -> dict[str, Any]:
        """The row at a position as Python values, blobs as bytes; negative positions count from the end."""
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The rows at positions, in their order; how a `DataLoader` fetches a batch.

        Raises
        ------
        pennon.InvalidInputError
            There is no row at a position; an `IndexError` as well, by which Python ends an iteration.
        """
        positions = [checked_number("position", index, -(2**63), 2**63 - 1) for index in indices]
        for index in positions:
            if not -self._len <= index < self._len:
                raise PositionError(f"Found position {index} in a table of {self._len} rows")
        if self._ds is None:
            self._ds = opened(self.uri, self.dataset_options)
        positions = [index % self._len for index in positions]
        taken = take(self._ds._native, "position", positions, None, blob_handling="all_binary")
        found: list[dict[str, Any]] = taken.to_pylist()
        return found


def get_safe_loader(dataset: Any, batch_size: int = 32, num_workers: int = 4, **kwargs: Any) -> Any:
    """A `torch.utils.data.DataLoader` whose workers are new processes instead of forks.

    Threads of the parent, of which readers of tables have several, do not survive a fork.

    Parameters
    ----------
    dataset
        A [SafeLanceDataset][pennon.torch.data.SafeLanceDataset], for example.
    batch_size
        Rows of a batch.
    num_workers
        Processes that read; with 0 the caller's own does.
    **kwargs
        For the `DataLoader`. By default the workers are kept from epoch to epoch (`persistent_workers`).

    Raises
    ------
    pennon.MissingPackageError
        PyTorch is not installed.

    Examples
    --------
    >>> import pennon
    >>> from pennon.torch.data import SafeLanceDataset, get_safe_loader
    >>> table = pennon.write_dataset({"a": [0, 1, 2]}, "memory://torch-loader", mode="overwrite")
    >>> rows = SafeLanceDataset("memory://torch-loader")
    >>> list(get_safe_loader(rows, batch_size=2, num_workers=0, collate_fn=list))
    [[{'a': 0}, {'a': 1}], [{'a': 2}]]
    """
    data = require("torch.utils.data", "torch", "get_safe_loader")
    workers: dict[str, Any] = {}
    if num_workers > 0:
        workers = {"persistent_workers": True, "multiprocessing_context": multiprocessing.get_context("spawn")}
    return data.DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, **{**workers, **kwargs})


class _Cache:
    """Rows in a file, from the first iteration that reaches its end."""

    def __init__(self, parent: str | None) -> None:
        try:
            self._directory = tempfile.TemporaryDirectory(prefix="pennon-torch-", dir=parent)
        except OSError as error:
            raise InvalidInputError(
                f"The cache is to be in {parent!r}, which cannot be written: {error}"
            ) from error
        self._file: Path | None = None

    def through(self, read: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """The batches: from the file if there is one, otherwise read, and written to it."""
        if self._file is not None:
            with pa.OSFile(str(self._file)) as source, pa.ipc.open_stream(source) as reader:
                yield from reader
            return
        batches = read()
        first = next(batches, None)
        if first is None:
            return
        with tempfile.NamedTemporaryFile(dir=self._directory.name, delete=False) as file:
            path = Path(file.name)
            try:
                with pa.ipc.new_stream(file, first.schema) as writer:
                    writer.write_batch(first)
                    yield first
                    for batch in batches:
                        writer.write_batch(batch)
                        yield batch
            except BaseException:  # an iteration that ends early is one
                path.unlink(missing_ok=True)
                raise
        self._file = path
