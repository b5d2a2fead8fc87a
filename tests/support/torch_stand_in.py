"""The part of PyTorch that the tests of `pennon.torch` need, over numpy arrays.

PyTorch is several hundred megabytes. Where it is installed the tests use it instead.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

DTYPES = {
    "bool": np.bool_,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}


class Tensor:
    """An array with the name of its dtype, which numpy does not have for bfloat16."""

    def __init__(self, array: np.ndarray, dtype: str | None = None) -> None:
        if dtype is None and array.dtype not in DTYPES.values():
            raise TypeError(f"can't convert np.ndarray of type {array.dtype}")
        self.array = array
        self.dtype = dtype or str(array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def view(self, *shape: Any) -> Tensor:
        if shape == ("bfloat16",):
            assert self.dtype in ("int16", "uint16")
            return Tensor(self.array, "bfloat16")
        return Tensor(self.array.reshape(*shape), self.dtype)

    def to(self, dtype: str) -> Tensor:
        return Tensor(self.array.astype(DTYPES[dtype]))

    def reshape(self, *shape: int) -> Tensor:
        return Tensor(self.array.reshape(*shape), self.dtype)

    def tolist(self) -> list[Any]:
        if self.dtype == "bfloat16":
            return (self.array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).tolist()
        return self.array.tolist()

    def __len__(self) -> int:
        return len(self.array)


class Dataset:
    pass


class IterableDataset(Dataset):
    pass


class DataLoader:
    """Loads in this process, and remembers what it was given."""

    def __init__(self, dataset: Any, batch_size: int = 1, num_workers: int = 0, **options: Any) -> None:
        self.dataset, self.batch_size, self.num_workers, self.options = dataset, batch_size, num_workers, options

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            yield from self.dataset
            return
        for start in range(0, len(self.dataset), self.batch_size):
            yield self.dataset.__getitems__(list(range(start, min(start + self.batch_size, len(self.dataset)))))


def modules(rank: int = 0, world_size: int = 1, worker: tuple[int, int] | None = None) -> dict[str, ModuleType]:
    """The modules by their names: for a process of `torch.distributed`, or a worker of a `DataLoader`."""
    torch, utils, data, distributed = map(
        ModuleType, ("torch", "torch.utils", "torch.utils.data", "torch.distributed")
    )

    def from_numpy(array: np.ndarray) -> Tensor:
        return Tensor(array)

    def tensor(values: Any, dtype: str | None = None, device: Any = None) -> Tensor:
        return Tensor(np.array(values, dtype and DTYPES[dtype]))

    info = None if worker is None else SimpleNamespace(id=worker[0], num_workers=worker[1])
    vars(torch).update(Tensor=Tensor, from_numpy=from_numpy, tensor=tensor, as_tensor=tensor, utils=utils)
    vars(torch).update({name: name for name in (*DTYPES, "bfloat16")}, distributed=distributed, __version__="0")
    vars(utils).update(data=data)
    vars(data).update(
        Dataset=Dataset, IterableDataset=IterableDataset, DataLoader=DataLoader, get_worker_info=lambda: info
    )
    vars(distributed).update(
        is_available=lambda: True,
        is_initialized=lambda: world_size > 1,
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
        # For examples, whose process is the only one.
        HashStore=dict,
        init_process_group=lambda *arguments, **options: None,
        destroy_process_group=lambda: None,
    )
    from importlib.machinery import ModuleSpec

    torch.multiprocessing = multiprocessing  # type: ignore[attr-defined]
    found = {"torch": torch, "torch.utils": utils, "torch.utils.data": data, "torch.distributed": distributed}
    for name, module in found.items():
        module.__spec__ = ModuleSpec(name, None)
    return found
