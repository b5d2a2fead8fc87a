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

from typing import TYPE_CHECKING

from pennon._compatibility import explain_absent_modules as _explain_absent_modules
from pennon._lazy import attach as _attach
from pennon._logging import set_up as _set_up_logging
from pennon._native_loading import set_up as _set_up_native_loading
from pennon.processors import set_up as _set_up_processors

if TYPE_CHECKING:
    from pennon import blob, commit, errors, file, fragment, jobs, optimize
    from pennon._native import __version__
    from pennon.blob import Blob, BlobArray, BlobColumn, BlobFile, blob_array, blob_field
    from pennon.cleanup import CleanupCandidateFile, CleanupExplanation, CleanupReferencedBranch, CleanupStats
    from pennon.dataset import LanceDataset
    from pennon.errors import (
        AbsentImportError,
        AbsentNameError,
        AlreadyExistsError,
        CommitConflictError,
        CommitUnknownError,
        CorruptError,
        InternalError,
        InvalidInputError,
        InvalidTypeError,
        MissingKeyError,
        MissingPackageError,
        NoEffectWarning,
        NotFoundError,
        PennonError,
        SchemaMismatchError,
        StoreError,
        UnsupportedError,
    )
    from pennon.fragment import DataFile, FragmentMetadata, LanceFragment
    from pennon.log import set_logger
    from pennon.merge_insert import MergeInsertBuilder
    from pennon.open import dataset
    from pennon.processors import cpu_count, set_cpu_count
    from pennon.progress import IndexProgress
    from pennon.repairing import RepairAction, RepairReport, repair
    from pennon.scanner import LanceScanner, ScannerBuilder
    from pennon.schema import LanceField, LanceSchema, json_to_schema, schema_to_json
    from pennon.scrubbing import ScrubReport, scrub
    from pennon.sealing import SealReport, seal
    from pennon.session import Session
    from pennon.stats import DataStatistics, FieldStatistics, bytes_read_counter, iops_counter
    from pennon.transaction import DatasetBasePath, Index, IndexFile, LanceOperation, Transaction
    from pennon.udf import BatchUDF, batch_udf
    from pennon.verification import VerifyReport, verify
    from pennon.write import write_dataset

__all__ = [
    "AbsentImportError",
    "AbsentNameError",
    "AlreadyExistsError",
    "BatchUDF",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobFile",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptError",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "FieldStatistics",
    "FragmentMetadata",
    "Index",
    "IndexFile",
    "IndexProgress",
    "InternalError",
    "InvalidInputError",
    "InvalidTypeError",
    "LanceDataset",
    "LanceField",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "MergeInsertBuilder",
    "MissingKeyError",
    "MissingPackageError",
    "NoEffectWarning",
    "NotFoundError",
    "PennonError",
    "RepairAction",
    "RepairReport",
    "ScannerBuilder",
    "SchemaMismatchError",
    "ScrubReport",
    "SealReport",
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
    "repair",
    "schema_to_json",
    "scrub",
    "seal",
    "set_cpu_count",
    "set_logger",
    "verify",
    "write_dataset",
]

# The names that are imported above for type checkers. `dataset` is the function, though a module has the name too.
_attach(
    __name__,
    names={
        "_native": ["__version__"],
        "blob": ["Blob", "BlobArray", "BlobColumn", "BlobFile", "blob_array", "blob_field"],
        "cleanup": ["CleanupCandidateFile", "CleanupExplanation", "CleanupReferencedBranch", "CleanupStats"],
        "dataset": ["LanceDataset"],
        "errors": [
            "AbsentImportError",
            "AbsentNameError",
            "AlreadyExistsError",
            "CommitConflictError",
            "CommitUnknownError",
            "CorruptError",
            "InternalError",
            "InvalidInputError",
            "InvalidTypeError",
            "MissingKeyError",
            "MissingPackageError",
            "NoEffectWarning",
            "NotFoundError",
            "PennonError",
            "SchemaMismatchError",
            "StoreError",
            "UnsupportedError",
        ],
        "fragment": ["DataFile", "FragmentMetadata", "LanceFragment"],
        "log": ["set_logger"],
        "merge_insert": ["MergeInsertBuilder"],
        "open": ["dataset"],
        "processors": ["cpu_count", "set_cpu_count"],
        "progress": ["IndexProgress"],
        "repairing": ["RepairAction", "RepairReport", "repair"],
        "scanner": ["LanceScanner", "ScannerBuilder"],
        "schema": ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"],
        "scrubbing": ["ScrubReport", "scrub"],
        "sealing": ["SealReport", "seal"],
        "session": ["Session"],
        "stats": ["DataStatistics", "FieldStatistics", "bytes_read_counter", "iops_counter"],
        "transaction": ["DatasetBasePath", "Index", "IndexFile", "LanceOperation", "Transaction"],
        "udf": ["BatchUDF", "batch_udf"],
        "verification": ["VerifyReport", "verify"],
        "write": ["write_dataset"],
    },
    modules=[
        "bitmap",
        "blob",
        "branches",
        "cleanup",
        "commit",
        "delta",
        "errors",
        "file",
        "fragment",
        "indices",
        "jobs",
        "log",
        "merge_insert",
        "metadata",
        "open",
        "optimize",
        "processors",
        "progress",
        "repairing",
        "scanner",
        "schema",
        "scrubbing",
        "sealing",
        "session",
        "sql",
        "stats",
        "tags",
        "transaction",
        "types",
        "udf",
        "util",
        "verification",
        "write",
    ],
)
_explain_absent_modules()
_set_up_native_loading()
try:
    _set_up_logging()
    _set_up_processors()
except ValueError as _error:
    import sys as _sys
    from pathlib import Path as _Path

    # The command `pennon` imports the package before it can catch anything. `-m` stands for its path so far.
    if _Path(_sys.argv[0]).stem != "pennon" and (_sys.argv[0] != "-m" or "pennon" not in _sys.orig_argv):
        raise
    print(f"pennon: {_error}", file=_sys.stderr)
    _sys.exit(2)
