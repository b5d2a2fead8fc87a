"""Lance tables whose rows keep their identity.

Read and write tables with [`dataset`][pennon.dataset] and [`write_dataset`][pennon.write_dataset]. Input is
anything with `__arrow_c_stream__`, output is Arrow.

Examples
--------
>>> import pennon
>>> import pyarrow as pa
>>> flights = pa.table({"carrier": ["UA", "AA", "B6"], "delay": [2, 4, -1]})
>>> table = pennon.write_dataset(flights, "memory://readme", mode="overwrite")
>>> table.delete("delay < 0")
{'num_deleted_rows': 1}
>>> table.to_table(with_row_id=True).to_pylist()
[{'carrier': 'UA', 'delay': 2, '_rowid': 0}, {'carrier': 'AA', 'delay': 4, '_rowid': 1}]
>>> pennon.dataset("memory://readme", version=1).count_rows()
3
"""

# `pennon.dataset` is a submodule and a function: the function is bound last.
import pennon.dataset  # noqa: F401  isort: skip
from pennon import blob, commit, errors, file, fragment, jobs, optimize
from pennon._logging import set_up as _set_up_logging
from pennon._native import __version__
from pennon.blob import Blob, BlobColumn, BlobFile, blob_array, blob_field
from pennon.dataset import LanceDataset
from pennon.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitUnknownError,
    CorruptError,
    InternalError,
    InvalidInputError,
    MissingPackageError,
    NotFoundError,
    PennonError,
    SchemaMismatchError,
    StoreError,
    UnsupportedError,
)
from pennon.fragment import DataFile, FragmentMetadata, LanceFragment
from pennon.open import dataset
from pennon.processors import cpu_count, set_cpu_count
from pennon.processors import set_up as _set_up_processors
from pennon.scanner import LanceScanner, ScannerBuilder
from pennon.schema import LanceField, LanceSchema, json_to_schema, schema_to_json
from pennon.session import Session
from pennon.stats import bytes_read_counter, iops_counter
from pennon.transaction import DatasetBasePath, LanceOperation, Transaction
from pennon.udf import BatchUDF, batch_udf
from pennon.verification import VerifyReport, verify
from pennon.write import write_dataset

__all__ = [
    "AlreadyExistsError",
    "BatchUDF",
    "Blob",
    "BlobColumn",
    "BlobFile",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptError",
    "DataFile",
    "DatasetBasePath",
    "FragmentMetadata",
    "InternalError",
    "InvalidInputError",
    "LanceDataset",
    "LanceField",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "MissingPackageError",
    "NotFoundError",
    "PennonError",
    "ScannerBuilder",
    "SchemaMismatchError",
    "Session",
    "StoreError",
    "Transaction",
    "UnsupportedError",
    "VerifyReport",
    "__version__",
    "batch_udf",
    "blob",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "commit",
    "cpu_count",
    "dataset",
    "errors",
    "file",
    "fragment",
    "iops_counter",
    "jobs",
    "json_to_schema",
    "optimize",
    "schema_to_json",
    "set_cpu_count",
    "verify",
    "write_dataset",
]

_set_up_logging()
_set_up_processors()
