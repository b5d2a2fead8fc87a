"""Which of the processes of a training this one is."""

from __future__ import annotations

from typing import Any

from pennon._optional import require

__all__ = [
    "get_dist_rank",
    "get_dist_world_size",
    "get_global_rank",
    "get_global_world_size",
    "get_mp_rank",
    "get_mp_world_size",
]


def get_dist_world_size() -> int:
    """The number of processes of `torch.distributed`; 1 if it is not initialized.

    Examples
    --------
    >>> from pennon.torch.dist import get_dist_world_size
    >>> get_dist_world_size()
    1
    """
    distributed = _initialized()
    return 1 if distributed is None else int(distributed.get_world_size())


def get_dist_rank() -> int:
    """The rank of this process in `torch.distributed`; 0 if it is not initialized.

    Examples
    --------
    >>> from pennon.torch.dist import get_dist_rank
    >>> get_dist_rank()
    0
    """
    distributed = _initialized()
    return 0 if distributed is None else int(distributed.get_rank())


def get_mp_world_size() -> int:
    """The number of workers of the `DataLoader` that this process is a worker of; 1 if it is none.

    Examples
    --------
    >>> from pennon.torch.dist import get_mp_world_size
    >>> get_mp_world_size()
    1
    """
    worker = _worker()
    return 1 if worker is None else int(worker.num_workers)


def get_mp_rank() -> int:
    """The number of this process among the workers of a `DataLoader`; 0 if it is none.

    Examples
    --------
    >>> from pennon.torch.dist import get_mp_rank
    >>> get_mp_rank()
    0
    """
    worker = _worker()
    return 0 if worker is None else int(worker.id)


def get_global_world_size() -> int:
    """The number of processes that read: all workers of all processes of `torch.distributed`.

    Examples
    --------
    >>> from pennon.torch.dist import get_global_world_size
    >>> get_global_world_size()
    1
    """
    return get_dist_world_size() * get_mp_world_size()


def get_global_rank() -> int:
    """The number of this process among those that read, from 0.

    Examples
    --------
    Samplers are given the share to read:

    >>> import pennon
    >>> from pennon.sampler import ShardedFragmentSampler
    >>> from pennon.torch.dist import get_global_rank, get_global_world_size
    >>> table = pennon.write_dataset({"a": [0, 1, 2]}, "memory://torch-rank", mode="overwrite")
    >>> sampler = ShardedFragmentSampler(get_global_rank(), get_global_world_size())
    >>> sum(batch.num_rows for batch in sampler(table))
    3
    """
    return get_dist_rank() * get_mp_world_size() + get_mp_rank()


def _initialized() -> Any | None:
    """`torch.distributed`, if it is initialized."""
    distributed = require("torch.distributed", "torch", "A rank")
    return distributed if distributed.is_available() and distributed.is_initialized() else None


def _worker() -> Any | None:
    return require("torch.utils.data", "torch", "A rank").get_worker_info()
