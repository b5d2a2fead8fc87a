"""The extension module: a package for type checkers only, with a stub for each Rust file that has something to show.

There is no `__init__.py`: at run time `pennon._native` is the compiled module next to this folder, and only what this
file names can be imported from it.
"""

from pennon._native._blob import Blob as Blob
from pennon._native._branches import Branches as Branches
from pennon._native._branches import BranchParts as BranchParts
from pennon._native._branches import add_bases as add_bases
from pennon._native._branches import base_paths as base_paths
from pennon._native._branches import clone_table as clone_table
from pennon._native._branches import create_branch as create_branch
from pennon._native._branches import version_refs as version_refs
from pennon._native._changes import ChangesRequest as ChangesRequest
from pennon._native._changes import changes as changes
from pennon._native._changes import fragments_since as fragments_since
from pennon._native._changes import history as history
from pennon._native._changes import restore_rows as restore_rows
from pennon._native._cleanup import CleanupExplanationParts as CleanupExplanationParts
from pennon._native._cleanup import CleanupRequest as CleanupRequest
from pennon._native._cleanup import CleanupStatsParts as CleanupStatsParts
from pennon._native._cleanup import cleanup as cleanup
from pennon._native._cleanup import explain_cleanup as explain_cleanup
from pennon._native._compaction import CompactionMetricsParts as CompactionMetricsParts
from pennon._native._compaction import CompactionOptionParts as CompactionOptionParts
from pennon._native._compaction import PlannedFragments as PlannedFragments
from pennon._native._compaction import TableStateParts as TableStateParts
from pennon._native._compaction import commit_compaction as commit_compaction
from pennon._native._compaction import compact as compact
from pennon._native._compaction import compact_fragments as compact_fragments
from pennon._native._compaction import plan_compaction as plan_compaction
from pennon._native._dataset import Dataset as Dataset
from pennon._native._dataset import OpenRequest as OpenRequest
from pennon._native._dataset import TakeRequest as TakeRequest
from pennon._native._dataset import VersionEntry as VersionEntry
from pennon._native._distributed import commit_new as commit_new
from pennon._native._distributed import rewrite_fragments as rewrite_fragments
from pennon._native._evolution import add_expressions as add_expressions
from pennon._native._evolution import add_expressions_in_fragment as add_expressions_in_fragment
from pennon._native._evolution import add_nulls as add_nulls
from pennon._native._evolution import add_values as add_values
from pennon._native._evolution import add_values_in_fragment as add_values_in_fragment
from pennon._native._evolution import alter_columns as alter_columns
from pennon._native._evolution import drop_columns as drop_columns
from pennon._native._evolution import merge_columns as merge_columns
from pennon._native._evolution import merge_columns_in_fragment as merge_columns_in_fragment
from pennon._native._evolution import with_columns as with_columns
from pennon._native._expression import evaluate as evaluate
from pennon._native._field_sizes import field_sizes as field_sizes
from pennon._native._file import FileParts as FileParts
from pennon._native._file import FileReader as FileReader
from pennon._native._file import FileWriteOptions as FileWriteOptions
from pennon._native._file import FileWriter as FileWriter
from pennon._native._file import stable_version as stable_version
from pennon._native._found import delete_found as delete_found
from pennon._native._found import update_found as update_found
from pennon._native._fragment import DataFileParts as DataFileParts
from pennon._native._fragment import DeletionFileParts as DeletionFileParts
from pennon._native._fragment import Fragment as Fragment
from pennon._native._fragment import FragmentParts as FragmentParts
from pennon._native._fragment import LineageParts as LineageParts
from pennon._native._fragment import count_row_ids as count_row_ids
from pennon._native._fragment import decode_row_ids as decode_row_ids
from pennon._native._fragment import encode_row_ids as encode_row_ids
from pennon._native._indices import IndexDescriptionParts as IndexDescriptionParts
from pennon._native._indices import IndexRequest as IndexRequest
from pennon._native._indices import IndexSegmentParts as IndexSegmentParts
from pennon._native._indices import IndexStatisticsParts as IndexStatisticsParts
from pennon._native._indices import VectorDetailsParts as VectorDetailsParts
from pennon._native._indices import commit_index_segments as commit_index_segments
from pennon._native._indices import create_index as create_index
from pennon._native._indices import create_index_segment as create_index_segment
from pennon._native._indices import describe_indices as describe_indices
from pennon._native._indices import drop_index as drop_index
from pennon._native._indices import index_statistics as index_statistics
from pennon._native._indices import merge_index_segments as merge_index_segments
from pennon._native._indices import optimize_indices as optimize_indices
from pennon._native._indices import prewarm_index as prewarm_index
from pennon._native._jobs import JobPlan as JobPlan
from pennon._native._jobs import JobResult as JobResult
from pennon._native._jobs import JobTask as JobTask
from pennon._native._merge_insert import MergeRequest as MergeRequest
from pennon._native._merge_insert import analyze_merge_insert as analyze_merge_insert
from pennon._native._merge_insert import explain_merge_insert as explain_merge_insert
from pennon._native._merge_insert import merge_insert as merge_insert
from pennon._native._merge_insert import merge_insert_uncommitted as merge_insert_uncommitted
from pennon._native._merge_insert import merge_keys as merge_keys
from pennon._native._metrics import CountersParts as CountersParts
from pennon._native._metrics import process_counters as process_counters
from pennon._native._processors import cpu_count as cpu_count
from pennon._native._processors import set_cpu_count as set_cpu_count
from pennon._native._repair import ActionParts as ActionParts
from pennon._native._repair import RepairParts as RepairParts
from pennon._native._repair import repair_table as repair_table
from pennon._native._scan import Batches as Batches
from pennon._native._scan import FirstRowsRequest as FirstRowsRequest
from pennon._native._scan import NearestRequest as NearestRequest
from pennon._native._scan import Scan as Scan
from pennon._native._scan import ScanRequest as ScanRequest
from pennon._native._schema import SchemaField as SchemaField
from pennon._native._schema import SchemaParts as SchemaParts
from pennon._native._schema import path_names as path_names
from pennon._native._schema import schema_from_arrow as schema_from_arrow
from pennon._native._schema import schema_to_arrow as schema_to_arrow
from pennon._native._seal import Scrub as Scrub
from pennon._native._seal import ScrubbedParts as ScrubbedParts
from pennon._native._seal import SealParts as SealParts
from pennon._native._seal import seal_table as seal_table
from pennon._native._session import Session as Session
from pennon._native._tags import TagParts as TagParts
from pennon._native._tags import Tags as Tags
from pennon._native._transaction import CommitOptions as CommitOptions
from pennon._native._transaction import TransactionParts as TransactionParts
from pennon._native._transaction import commit as commit
from pennon._native._transaction import merge_appends as merge_appends
from pennon._native._update import UpdateRequest as UpdateRequest
from pennon._native._update import update as update
from pennon._native._update import update_columns_in_fragment as update_columns_in_fragment
from pennon._native._update import update_rows as update_rows
from pennon._native._vector_indices import ModelParts as ModelParts
from pennon._native._vector_indices import VectorIndexRequest as VectorIndexRequest
from pennon._native._vector_indices import VectorStatisticsParts as VectorStatisticsParts
from pennon._native._vector_indices import create_vector_index as create_vector_index
from pennon._native._vector_indices import create_vector_index_segment as create_vector_index_segment
from pennon._native._vector_indices import train_vector_index as train_vector_index
from pennon._native._vector_indices import vector_index_model as vector_index_model
from pennon._native._vector_indices import vector_index_statistics as vector_index_statistics
from pennon._native._verify import FindingParts as FindingParts
from pennon._native._verify import ReportParts as ReportParts
from pennon._native._verify import verify as verify
from pennon._native._verify import verify_table as verify_table
from pennon._native._write import WriteOptions as WriteOptions
from pennon._native._write import write as write
from pennon._native._write import write_uncommitted as write_uncommitted

__all__ = [
    "Batches",
    "Blob",
    "Branches",
    "Dataset",
    "FileReader",
    "FileWriter",
    "Fragment",
    "JobPlan",
    "JobResult",
    "JobTask",
    "PlannedFragments",
    "Scan",
    "Scrub",
    "Session",
    "Tags",
    "__version__",
    "add_bases",
    "add_expressions",
    "add_expressions_in_fragment",
    "add_nulls",
    "add_values",
    "add_values_in_fragment",
    "alter_columns",
    "analyze_merge_insert",
    "base_paths",
    "changes",
    "cleanup",
    "clone_table",
    "commit",
    "commit_compaction",
    "commit_index_segments",
    "commit_new",
    "compact",
    "compact_fragments",
    "count_row_ids",
    "cpu_count",
    "create_branch",
    "create_index",
    "create_index_segment",
    "create_vector_index",
    "create_vector_index_segment",
    "decode_row_ids",
    "delete_found",
    "describe_indices",
    "drop_columns",
    "drop_index",
    "encode_row_ids",
    "evaluate",
    "explain_cleanup",
    "explain_merge_insert",
    "field_sizes",
    "fragments_since",
    "history",
    "index_statistics",
    "merge_appends",
    "merge_columns",
    "merge_columns_in_fragment",
    "merge_index_segments",
    "merge_insert",
    "merge_insert_uncommitted",
    "merge_keys",
    "optimize_indices",
    "path_names",
    "plan_compaction",
    "prewarm_index",
    "process_counters",
    "repair_table",
    "restore_rows",
    "rewrite_fragments",
    "schema_from_arrow",
    "schema_to_arrow",
    "seal_table",
    "set_cpu_count",
    "stable_version",
    "train_vector_index",
    "update",
    "update_columns_in_fragment",
    "update_found",
    "update_rows",
    "vector_index_model",
    "vector_index_statistics",
    "verify",
    "verify_table",
    "version_refs",
    "with_columns",
    "write",
    "write_uncommitted",
]

__version__: str
