"""Two processes train a model of PyTorch from one version of a table, while somebody else changes the table.

    python examples/training.py

The rows are scikit-learn's images of handwritten digits. A tag pins the version and a seed the order of batches,
so training can be repeated: later, and whatever happened to the table since, it gives the same weights.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta

import numpy as np
import pennon
import pyarrow as pa
import torch
from pennon.sampler import ShardedBatchSampler
from pennon.torch.data import LanceDataset
from sklearn.datasets import load_digits

TAG = "training"
KNOWN, BATCH, EPOCHS, RANKS, SEED = 1536, 32, 20, 2, 7


def digits() -> pa.Table:
    """Images of 8 x 8 pixels from 0 to 1, and the digits that they show."""
    found = load_digits()
    pixels = pa.array((found.data / 16).astype(np.float32).ravel())
    return pa.table({"image": pa.FixedSizeListArray.from_arrays(pixels, 64), "digit": found.target})


def share(uri: str) -> tuple[LanceDataset, ShardedBatchSampler]:
    """What this process reads: every second batch of the tagged version, in an order that depends on the epoch."""
    sampler = ShardedBatchSampler.from_torch(randomize=True, seed=SEED)
    return LanceDataset(uri, BATCH, dataset_options={"version": TAG}, sampler=sampler), sampler


def network() -> torch.nn.Sequential:
    torch.manual_seed(SEED)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def train(rank: int, uri: str, folder: str) -> None:
    """What each process does; the gradients of a batch are averaged over the processes."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    model = torch.nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches, sampler = share(uri)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for batch in batches:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch["image"]), batch["digit"]).backward()
            optimizer.step()
    if rank == 0:
        torch.save(model.module.state_dict(), f"{folder}/weights.pt")
    torch.distributed.destroy_process_group()


def accuracy(weights: dict[str, torch.Tensor], images: pa.Table) -> float:
    """The part of the images whose digit the model finds."""
    model = network()
    model.load_state_dict(weights)
    pixels = images["image"].combine_chunks().flatten().to_numpy().reshape(-1, 64)
    found = model(torch.tensor(pixels)).argmax(1).numpy()
    return float((found == images["digit"].to_numpy()).mean())


def run(folder: str) -> None:
    """Train, while the table changes; clean up, and train again."""
    rows, uri = digits(), f"{folder}/digits.lance"
    others = rows.slice(KNOWN)
    table = pennon.write_dataset(rows.slice(0, KNOWN), uri)
    table.tags.create(TAG, table.version)
    print(f"tag {TAG}: {table.count_rows():,} images in version {table.version}")

    first, second = (tempfile.mkdtemp(dir=folder) for _ in range(2))
    processes = torch.multiprocessing.spawn(train, (uri, first), RANKS, join=False)
    table.insert(others.set_column(1, "digit", pa.array([0] * len(others))))  # most of them wrong
    table.delete("digit = 3")
    print(f"meanwhile: {table.count_rows():,} images in version {table.version}")
    while not processes.join():
        pass
    weights = torch.load(f"{first}/weights.pt")
    print(f"more than 85 % of {len(others)} other images are recognized: {accuracy(weights, others) > 0.85}")

    table.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    print(f"versions after a cleanup: {', '.join(str(found['version']) for found in table.versions())}")
    torch.multiprocessing.spawn(train, (uri, second), RANKS)
    again = torch.load(f"{second}/weights.pt")
    print(f"trained again, to the same weights: {all(torch.equal(again[name], weights[name]) for name in weights)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        run(directory)
