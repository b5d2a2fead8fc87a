"""The extension module. Each Rust file with something to show has a stub file of the same name."""

from pennon._blob import Blob as Blob
from pennon._branches import Branches as Branches
from pennon._branches import BranchParts as BranchParts
from pennon._branches import add_bases as add_bases
from pennon._branches import base_paths as base_paths
from pennon._branches import clone_table as clone_table
from pennon._branches import create_branch as create_branch
from pennon._branches import version_refs as version_refs
from pennon._changes import ChangesRequest as ChangesRequest
from pennon._changes import changes as changes
from pennon._changes import fragments_since as fragments_since
from pennon._changes import history as history
from pennon._changes import restore_rows as restore_rows
from pennon._cleanup import CleanupExplanationParts as CleanupExplanationParts
from pennon._cleanup import CleanupOptions as CleanupOptions
from pennon._cleanup import CleanupStatsParts as CleanupStatsParts
from pennon._cleanup import cleanup as cleanup
from pennon._cleanup import explain_cleanup as explain_cleanup
from pennon._compaction import CompactionMetricsParts as CompactionMetricsParts
from pennon._compaction import CompactionOptionParts as CompactionOptionParts
from pennon._compaction import PlannedFragments as PlannedFragments
from pennon._compaction import TableStateParts as TableStateParts
from pennon._compaction import commit_compaction as commit_compaction
from pennon._compaction import compact as compact
from pennon._compaction import compact_fragments as compact_fragments
from pennon._compaction import plan_compaction as plan_compaction
from pennon._dataset import Dataset as Dataset
from pennon._dataset import TakeRequest as TakeRequest
from pennon._dataset import VersionEntry as VersionEntry
from pennon._distributed import commit_append as commit_append
from pennon._distributed import commit_delete as commit_delete
from pennon._distributed import commit_new as commit_new
from pennon._distributed import delete_rows as delete_rows
from pennon._distributed import matching_rows as matching_rows
from pennon._distributed import rewrite_fragments as rewrite_fragments
from pennon._distributed import write_fragments as write_fragments
from pennon._distributed import write_new_fragments as write_new_fragments
from pennon._evolution import add_expressions as add_expressions
from pennon._evolution import add_expressions_in_fragment as add_expressions_in_fragment
from pennon._evolution import add_nulls as add_nulls
from pennon._evolution import add_values as add_values
from pennon._evolution import add_values_in_fragment as add_values_in_fragment
from pennon._evolution import alter_columns as alter_columns
from pennon._evolution import drop_columns as drop_columns
from pennon._evolution import merge_columns as merge_columns
from pennon._evolution import merge_columns_in_fragment as merge_columns_in_fragment
from pennon._file import FileParts as FileParts
from pennon._file import FileReader as FileReader
from pennon._file import FileWriteOptions as FileWriteOptions
from pennon._file import FileWriter as FileWriter
from pennon._file import stable_version as stable_version
from pennon._fragment import DataFileParts as DataFileParts
from pennon._fragment import DeletionFileParts as DeletionFileParts
from pennon._fragment import Fragment as Fragment
from pennon._fragment import FragmentParts as FragmentParts
from pennon._fragment import LineageParts as LineageParts
from pennon._fragment import count_row_ids as count_row_ids
from pennon._fragment import decode_row_ids as decode_row_ids
from pennon._fragment import encode_row_ids as encode_row_ids
from pennon._merge_insert import MergeRequest as MergeRequest
from pennon._merge_insert import analyze_merge_insert as analyze_merge_insert
from pennon._merge_insert import explain_merge_insert as explain_merge_insert
from pennon._merge_insert import merge_insert as merge_insert
from pennon._merge_insert import merge_insert_uncommitted as merge_insert_uncommitted
from pennon._merge_insert import merge_keys as merge_keys
from pennon._metrics import CountersParts as CountersParts
from pennon._metrics import process_counters as process_counters
from pennon._processors import cpu_count as cpu_count
from pennon._processors import set_cpu_count as set_cpu_count
from pennon._scan import Batches as Batches
from pennon._scan import Scan as Scan
from pennon._scan import ScanRequest as ScanRequest
from pennon._schema import SchemaField as SchemaField
from pennon._schema import SchemaParts as SchemaParts
from pennon._schema import schema_from_arrow as schema_from_arrow
from pennon._schema import schema_to_arrow as schema_to_arrow
from pennon._session import Session as Session
from pennon._tags import TagParts as TagParts
from pennon._tags import Tags as Tags
from pennon._transaction import CommitOptions as CommitOptions
from pennon._transaction import TransactionParts as TransactionParts
from pennon._transaction import commit as commit
from pennon._transaction import merge_appends as merge_appends
from pennon._update import UpdateRequest as UpdateRequest
from pennon._update import update as update
from pennon._update import update_at as update_at
from pennon._update import update_columns_in_fragment as update_columns_in_fragment
from pennon._update import update_rows as update_rows
from pennon._verify import ReportParts as ReportParts
from pennon._verify import verify as verify
from pennon._verify import verify_table as verify_table
from pennon._write import WriteOptions as WriteOptions
from pennon._write import write as write
from pennon._write import write_uncommitted as write_uncommitted

__all__ = [
    "Batches",
    "Blob",
    "Branches",
    "Dataset",
    "FileReader",
    "FileWriter",
    "Fragment",
    "PlannedFragments",
    "Scan",
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
    "commit_append",
    "commit_compaction",
    "commit_delete",
    "commit_new",
    "compact",
    "compact_fragments",
    "count_row_ids",
    "cpu_count",
    "create_branch",
    "decode_row_ids",
    "delete_rows",
    "drop_columns",
    "encode_row_ids",
    "explain_cleanup",
    "explain_merge_insert",
    "fragments_since",
    "history",
    "matching_rows",
    "merge_appends",
    "merge_columns",
    "merge_columns_in_fragment",
    "merge_insert",
    "merge_insert_uncommitted",
    "merge_keys",
    "plan_compaction",
    "process_counters",
    "restore_rows",
    "rewrite_fragments",
    "schema_from_arrow",
    "schema_to_arrow",
    "set_cpu_count",
    "stable_version",
    "update",
    "update_at",
    "update_columns_in_fragment",
    "update_rows",
    "verify",
    "verify_table",
    "version_refs",
    "write",
    "write_fragments",
    "write_new_fragments",
    "write_uncommitted",
]

__version__: str
