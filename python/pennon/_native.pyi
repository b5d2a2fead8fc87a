"""The extension module. Each Rust file with something to show has a stub file of the same name."""

from pennon._dataset import Dataset as Dataset
from pennon._dataset import SchemaField as SchemaField
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
from pennon._file import FileParts as FileParts
from pennon._file import FileReader as FileReader
from pennon._file import FileWriteOptions as FileWriteOptions
from pennon._file import FileWriter as FileWriter
from pennon._file import stable_version as stable_version
from pennon._fragment import DataFileParts as DataFileParts
from pennon._fragment import DeletionFileParts as DeletionFileParts
from pennon._fragment import Fragment as Fragment
from pennon._scan import Batches as Batches
from pennon._scan import Scan as Scan
from pennon._scan import ScanRequest as ScanRequest
from pennon._tags import TagParts as TagParts
from pennon._tags import Tags as Tags
from pennon._transaction import TransactionParts as TransactionParts
from pennon._write import WriteOptions as WriteOptions
from pennon._write import write as write

__all__ = [
    "Batches",
    "Dataset",
    "FileReader",
    "FileWriter",
    "Fragment",
    "Scan",
    "Tags",
    "__version__",
    "commit_append",
    "commit_delete",
    "commit_new",
    "delete_rows",
    "matching_rows",
    "rewrite_fragments",
    "stable_version",
    "write",
    "write_fragments",
    "write_new_fragments",
]

__version__: str
