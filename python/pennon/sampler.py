"""Samples of a table, and the order in which training programs read it.

A sampler is called with a dataset and gives record batches. Those whose names begin with `Sharded` divide the rows
among `world_size` processes, of which each has a `rank`. The same seed and epoch give the same order in every
process.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pennon._compatibility import explain_absent_names
from pennon._optional import require
from pennon._options import deprecated, ignored, refuse_unknown, unless
from pennon._sample import batches_at, batches_of, check_positive, maybe_sample, opened
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon.dataset import LanceDataset
    from pennon.fragment import LanceFragment
    from pennon.types import Columns

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "Sampler",
    "ShardedBatchIterator",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
]

explain_absent_names(__name__)

_BUFFERED_BATCHES = 64
_ABOUT_ALL_ROWS = {"limit", "offset", "order_by"}


class Sampler(ABC):
    """What gives the batches of a dataset in some order; derive from it for an order of one's own.

    Examples
    --------
    >>> import pennon
    >>> from pennon.sampler import Sampler
    >>> class NewestFirst(Sampler):
    ...     def __call__(self, dataset, *args, batch_size=128, **options):
    ...         for start in reversed(range(0, dataset.count_rows(), batch_size)):
    ...             yield from dataset.to_table(offset=start, limit=batch_size).to_batches()
    >>> table = pennon.write_dataset({"a": [0, 1, 2, 3, 4]}, "memory://sampler", mode="overwrite")
    >>> [batch["a"].to_pylist() for batch in NewestFirst()(table, batch_size=2)]
    [[4], [2, 3], [0, 1]]
    """

    @abstractmethod
    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches.

        Parameters
        ----------
        dataset
            The table.
        batch_size
            The most rows of a batch.
        columns, filter, batch_readahead, with_row_id
            As in [LanceDataset.scanner][pennon.LanceDataset.scanner].
        *args, **kwargs
            For samplers of one's own.
        """


class FragmentSampler(Sampler):
    """A sampler that reads fragment by fragment; a batch has rows of one fragment.

    Derive from it and say in `iter_fragments` which fragments are read, and in which order.

    Examples
    --------
    >>> import pennon
    >>> from pennon.sampler import FragmentSampler
    >>> class FirstFragment(FragmentSampler):
    ...     def iter_fragments(self, dataset, *args, **options):
    ...         yield dataset.get_fragments()[0]
    >>> data = {"a": [0, 1, 2, 3]}
    >>> table = pennon.write_dataset(data, "memory://fragment-sampler", mode="overwrite", max_rows_per_file=3)
    >>> [batch["a"].to_pylist() for batch in FirstFragment()(table, batch_size=2)]
    [[0, 1], [2]]
    """

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of the fragments that `iter_fragments` gives; parameters as for `Sampler`."""
        ignored(batch_readahead=unless(batch_readahead, 16))
        check_positive(batch_size=batch_size)
        fragments = self.iter_fragments(dataset, *args, **kwargs)
        # Default options that sort and limit are about the rows of all fragments.
        is_one = not _ABOUT_ALL_ROWS.isdisjoint(dataset._default_scan_options)
        for scanned in [[*fragments]] if is_one else ([fragment] for fragment in fragments):
            yield from dataset.scanner(
                columns=columns,
                batch_size=batch_size,
                filter=filter,
                fragments=scanned,
                with_row_id=with_row_id,
                strict_batch_size=True,
            ).to_batches()

    @abstractmethod
    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """The fragments to read, in this order; parameters as for `Sampler`.

        Examples
        --------
        >>> import pennon
        >>> from pennon.sampler import FragmentSampler
        >>> class LargestFirst(FragmentSampler):
        ...     def iter_fragments(self, dataset, *args, **options):
        ...         yield from sorted(dataset.get_fragments(), key=lambda fragment: -fragment.count_rows())
        >>> table = pennon.write_dataset({"a": [0]}, "memory://iter-fragments", mode="overwrite")
        >>> table.insert({"a": [1, 2]})
        >>> [batch["a"].to_pylist() for batch in LargestFirst()(table)]
        [[1, 2], [0]]
        """


class FullScanSampler(FragmentSampler):
    """Reads all fragments in the order of the table.

    Examples
    --------
    >>> import pennon
    >>> from pennon.sampler import FullScanSampler
    >>> data = {"a": [0, 1, 2, 3]}
    >>> table = pennon.write_dataset(data, "memory://full-scan-of", mode="overwrite", max_rows_per_file=3)
    >>> [batch["a"].to_pylist() for batch in FullScanSampler()(table, batch_size=2, filter="a > 0")]
    [[1, 2], [3]]
    """

    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """All fragments.

        Examples
        --------
        >>> import pennon
        >>> from pennon.sampler import FullScanSampler
        >>> data = {"a": [1, 2, 3]}
        >>> table = pennon.write_dataset(data, "memory://full-scan", mode="overwrite", max_rows_per_file=2)
        >>> [fragment.fragment_id for fragment in FullScanSampler().iter_fragments(table)]
        [0, 1]
        """
        refuse_unknown("FullScanSampler", args, kwargs)
        yield from dataset.get_fragments()


class _Shard:
    """Which part of the rows a process reads, and the seed of their order."""

    def __init__(self, rank: int, world_size: int, randomize: bool, seed: int) -> None:
        _check_rank(rank, world_size)
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch: a number that all processes agree on, 0 at first, added to the seed.

        Examples
        --------
        >>> from pennon.sampler import ShardedFixedBatchSampler
        >>> sampler = ShardedFixedBatchSampler(0, 1, randomize=True, batch_size=2, total_num_rows=100)
        >>> first = list(sampler)
        >>> sampler.set_epoch(1)
        >>> list(sampler) == first, sorted(list(sampler)) == sorted(first)
        (False, True)
        """
        self._epoch = epoch

    def _random(self) -> random.Random:
        return random.Random(self._seed + self._epoch)

    def _shuffled(self, items: Iterable[Any]) -> list[Any]:
        """The items, in another order if one is wanted."""
        shuffled = list(items)
        if self._randomize:
            self._random().shuffle(shuffled)
        return shuffled


class ShardedFragmentSampler(_Shard, FragmentSampler):
    """Every `world_size`-th fragment, from that at position `rank`.

    Cheaper than [ShardedBatchSampler][pennon.sampler.ShardedBatchSampler], but processes get as many rows as their
    fragments have.

    Parameters
    ----------
    rank
        Of this process, from 0.
    world_size
        The number of processes.
    randomize
        Whether the fragments are in a random order before they are shared out.
    seed
        Of that order.

    Raises
    ------
    pennon.InvalidInputError
        `rank` is not one of `world_size`.

    Examples
    --------
    >>> import pennon
    >>> from pennon.sampler import ShardedFragmentSampler
    >>> numbers = {"a": [0, 1, 2, 3, 4]}
    >>> table = pennon.write_dataset(numbers, "memory://shards", mode="overwrite", max_rows_per_file=2)
    >>> [batch["a"].to_pylist() for batch in ShardedFragmentSampler(0, 2)(table)]
    [[0, 1], [4]]
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        super().__init__(rank, world_size, randomize, seed)

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedFragmentSampler:
        """For this process of `torch.distributed`, which must be initialised.

        Raises
        ------
        pennon.MissingPackageError
            PyTorch is not installed.

        Examples
        --------
        >>> import pennon, torch.distributed as processes
        >>> from pennon.sampler import ShardedFragmentSampler
        >>> table = pennon.write_dataset({"a": [0, 1, 2]}, "memory://shards-torch", mode="overwrite")
        >>> processes.init_process_group("gloo", store=processes.HashStore(), rank=0, world_size=1)
        >>> [batch["a"].to_pylist() for batch in ShardedFragmentSampler.from_torch()(table)]
        [[0, 1, 2]]
        >>> processes.destroy_process_group()
        """
        return ShardedFragmentSampler(*_torch_rank(), randomize=randomize, seed=seed)

    def iter_fragments(self, dataset: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """The fragments of this process, in the order of the epoch.

        Examples
        --------
        >>> import pennon
        >>> from pennon.sampler import ShardedFragmentSampler
        >>> data = {"a": [0, 1, 2, 3, 4]}
        >>> table = pennon.write_dataset(data, "memory://shard-fragments", mode="overwrite", max_rows_per_file=1)
        >>> [fragment.fragment_id for fragment in ShardedFragmentSampler(1, 2).iter_fragments(table)]
        [1, 3]
        """
        refuse_unknown("ShardedFragmentSampler", args, kwargs)
        # All processes shuffle alike, so that an epoch gives each other fragments.
        yield from self._shuffled(dataset.get_fragments())[self._rank :: self._world_size]


class ShardedBatchSampler(_Shard, Sampler):
    """Every `world_size`-th batch, from that at position `rank`.

    Without a filter a process reads the rows of its batches only, whatever the default scan options of the dataset:
    small batches several at once, up to 8 MB. With one it scans the whole table, and gets every
    `world_size`-th of the rows that match; a random order is then one of batches that are near each other, as they
    are shuffled in a buffer of 64.

    Parameters
    ----------
    rank
        Of this process, from 0.
    world_size
        The number of processes.
    randomize
        Whether this process reads its batches in a random order.
    seed
        Of that order.

    Raises
    ------
    pennon.InvalidInputError
        `rank` is not one of `world_size`.

    Examples
    --------
    >>> import pennon
    >>> from pennon.sampler import ShardedBatchSampler
    >>> table = pennon.write_dataset({"a": [0, 1, 2, 3, 4]}, "memory://batches", mode="overwrite")
    >>> [batch["a"].to_pylist() for batch in ShardedBatchSampler(0, 2)(table, batch_size=2)]
    [[0, 1], [4]]
    >>> [batch["a"].to_pylist() for batch in ShardedBatchSampler(1, 2)(table, batch_size=2, filter="a > 1")]
    [[3]]
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        super().__init__(rank, world_size, randomize, seed)

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedBatchSampler:
        """For this process of `torch.distributed`, which must be initialised.

        Raises
        ------
        pennon.MissingPackageError
            PyTorch is not installed.

        Examples
        --------
        >>> import pennon, torch.distributed as processes
        >>> from pennon.sampler import ShardedBatchSampler
        >>> table = pennon.write_dataset({"a": [0, 1, 2]}, "memory://batches-torch", mode="overwrite")
        >>> processes.init_process_group("gloo", store=processes.HashStore(), rank=0, world_size=1)
        >>> [batch["a"].to_pylist() for batch in ShardedBatchSampler.from_torch()(table, batch_size=2)]
        [[0, 1], [2]]
        >>> processes.destroy_process_group()
        """
        return ShardedBatchSampler(*_torch_rank(), randomize=randomize, seed=seed)

    def __call__(
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns | None = None,
        filter: str | None = None,
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of this process; parameters as for `Sampler`."""
        refuse_unknown("ShardedBatchSampler", args, kwargs)
        ignored(batch_readahead=unless(batch_readahead, 16))
        check_positive(batch_size=batch_size)
        if filter is None:
            step = batch_size * self._world_size
            starts = self._shuffled(range(self._rank * batch_size, dataset.count_rows(), step))
            yield from batches_at(dataset, starts, batch_size, columns, with_row_id)
            return
        scan = dataset.to_batches(columns, filter=filter, batch_size=batch_size, with_row_id=with_row_id)
        batches = rebatched(_every(scan, self._rank, self._world_size), batch_size)
        yield from self._mixed(batches) if self._randomize else batches

    def _mixed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, each exchanged with a random one of those that wait."""
        chance = self._random()
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            if len(waiting) < _BUFFERED_BATCHES:
                waiting.append(batch)
                continue
            chosen = chance.randrange(len(waiting))
            yield waiting[chosen]
            waiting[chosen] = batch
        chance.shuffle(waiting)
        yield from waiting


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """Positions of rows in batches, for tables whose number of rows is known and does not change.

    Each process has consecutive rows, and gives lists of positions when it is iterated over: what the parameter
    `batch_sampler` of `torch.utils.data.DataLoader` wants. `len` is the number of batches.

    Parameters
    ----------
    rank
        Of this process, from 0.
    world_size
        The number of processes.
    randomize
        Whether the batches are in a random order.
    seed
        Of that order.
    batch_size
        Rows in a batch; the last one of a process may have fewer.
    total_num_rows
        Rows of the table.

    Raises
    ------
    pennon.InvalidInputError
        `rank` is not one of `world_size`, or a number is negative.

    Examples
    --------
    >>> from pennon.sampler import ShardedFixedBatchSampler
    >>> list(ShardedFixedBatchSampler(1, 2, batch_size=2, total_num_rows=6))
    [[3, 4], [5]]
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ) -> None:
        super().__init__(rank, world_size, randomize, seed)
        if batch_size < 0 or total_num_rows < 0:
            raise InvalidInputError(
                f"batch_size is {batch_size}, total_num_rows {total_num_rows}, expected 0 or more"
            )
        share = -(-total_num_rows // world_size)
        rows = range(min(rank * share, total_num_rows), min((rank + 1) * share, total_num_rows))
        self._batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size or 1)]
        if batch_size == 0:
            self._batches = []

    @staticmethod
    def from_torch(  # type: ignore[override]
        batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> ShardedFixedBatchSampler:
        """For this process of `torch.distributed`, which must be initialised.

        Raises
        ------
        pennon.MissingPackageError
            PyTorch is not installed.

        Examples
        --------
        >>> import torch.distributed as processes
        >>> from pennon.sampler import ShardedFixedBatchSampler
        >>> processes.init_process_group("gloo", store=processes.HashStore(), rank=0, world_size=1)
        >>> list(ShardedFixedBatchSampler.from_torch(batch_size=2, total_num_rows=3))
        [[0, 1], [2]]
        >>> processes.destroy_process_group()
        """
        rank, world_size = _torch_rank()
        return ShardedFixedBatchSampler(rank, world_size, randomize, seed, batch_size, total_num_rows)

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._shuffled(self._batches):
            yield list(batch)


class ShardedBatchIterator:
    """The batches of one process; superseded by the samplers, and here for programs that use it.

    Parameters
    ----------
    data
        A dataset, or where it is.
    rank
        Of this process, from 0.
    world_size
        The number of processes.
    columns, batch_size, batch_readahead, with_row_id
        As for `Sampler`.
    granularity
        What is shared out: `"fragment"` or `"batch"`.

    Raises
    ------
    pennon.InvalidInputError
        `rank` is not one of `world_size`, or the granularity is unknown.

    Examples
    --------
    >>> import pennon
    >>> from pennon.sampler import ShardedBatchIterator
    >>> table = pennon.write_dataset({"a": [0, 1, 2, 3, 4]}, "memory://batch-iterator", mode="overwrite")
    >>> batches = ShardedBatchIterator(table, 0, 2, batch_size=2, granularity="batch")
    >>> [batch["a"].to_pylist() for batch in batches]
    [[0, 1], [4]]
    """

    def __init__(
        self,
        data: str | PathLike[str] | LanceDataset,
        rank: int,
        world_size: int,
        *,
        columns: Columns | None = None,
        batch_size: int = 1024 * 10,
        granularity: Literal["fragment", "batch"] = "fragment",
        batch_readahead: int = 8,
        with_row_id: bool = False,
    ) -> None:
        deprecated("ShardedBatchIterator", "a sampler")
        ignored(batch_readahead=unless(batch_readahead, 8))
        samplers = {"fragment": ShardedFragmentSampler, "batch": ShardedBatchSampler}
        if granularity not in samplers:
            raise InvalidInputError(f"The granularity is {granularity!r}, expected 'fragment' or 'batch'")
        self._sampler: Sampler = samplers[granularity](rank, world_size)
        self._dataset = opened(data)
        self._options: dict[str, Any] = {
            "columns": columns,
            "batch_size": batch_size,
            "with_row_id": with_row_id,
        }

    @staticmethod
    def from_torch(
        data: str | PathLike[str] | LanceDataset,
        *,
        columns: Columns | None = None,
        batch_size: int = 1024 * 10,
        granularity: Literal["fragment", "batch"] = "fragment",
        batch_readahead: int = 8,
        with_row_id: bool = False,
    ) -> ShardedBatchIterator:
        """For this process of `torch.distributed`, which must be initialised; parameters as for the class.

        Examples
        --------
        >>> import pennon, torch.distributed as processes
        >>> from pennon.sampler import ShardedBatchIterator
        >>> table = pennon.write_dataset({"a": [0, 1, 2]}, "memory://iterator-torch", mode="overwrite")
        >>> processes.init_process_group("gloo", store=processes.HashStore(), rank=0, world_size=1)
        >>> [batch["a"].to_pylist() for batch in ShardedBatchIterator.from_torch(table, batch_size=2)]
        [[0, 1], [2]]
        >>> processes.destroy_process_group()
        """
        return ShardedBatchIterator(
            data,
            *_torch_rank(),
            columns=columns,
            batch_size=batch_size,
            granularity=granularity,
            batch_readahead=batch_readahead,
            with_row_id=with_row_id,
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._sampler(self._dataset, **self._options)


def _check_rank(rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise InvalidInputError(f"The rank is {rank} of {world_size} processes, expected 0 to world_size - 1")


def _torch_rank() -> tuple[int, int]:
    torch = require("torch.distributed", "torch", "A sampler of torch.distributed")
    return torch.get_rank(), torch.get_world_size()


def _every(batches: Iterable[pa.RecordBatch], first: int, step: int) -> Iterator[pa.RecordBatch]:
    """Each `step`-th row of all, from that at position `first`."""
    for batch in batches:
        chosen = pa.array(range(first, batch.num_rows, step), pa.int64())
        first = (first - batch.num_rows) % step
        if len(chosen):
            yield batch.take(chosen)


def rebatched(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `size`, less in the last."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= size:
            table = pa.Table.from_batches(waiting)
            yield from batches_of(table.slice(0, size))
            rows -= size
            waiting = table.slice(size).to_batches()
    if rows:
        yield from batches_of(pa.Table.from_batches(waiting))
