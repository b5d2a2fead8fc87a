"""Callbacks that see the fragments of a write, one that records them in files, and what those of indices see."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.fs

from pennon._compatibility import explain_absent_names
from pennon.errors import InvalidInputError, NotFoundError, StoreError
from pennon.metadata import FragmentMetadata

__all__ = [
    "FileSystemFragmentWriteProgress",
    "FragmentWriteProgress",
    "IndexProgress",
    "NoopFragmentWriteProgress",
]

explain_absent_names(__name__)


@dataclass(frozen=True)
class IndexProgress:
    """How far an index is that is being made.

    Attributes
    ----------
    event
        `"start"` and `"complete"` of a stage, and `"progress"` in it.
    stage
        What is done: `"load_data"`, the rows are read and sorted. Of vectors `"train_ivf"`, centroids are found;
        `"train_quantizer"`, a codebook is found; `"shuffle"`, vectors are read and assigned to partitions;
        `"merge_partitions"`, these are written.
    completed, total
        How much of it is done, and all of it; `None` if that is not known.
    unit
        What is counted: `"rows"`, `"iterations"`, `"sub-vectors"` or `"partitions"`.

    Examples
    --------
    >>> import pennon
    >>> from pennon.vector import vec_to_table
    >>> table = pennon.write_dataset(vec_to_table([[0, 0], [3, 4]]), "memory://index-progress", mode="overwrite")
    >>> seen = []
    >>> _ = table.create_index("vector", "IVF_FLAT", num_partitions=1, progress_callback=seen.append)
    >>> [(step.stage, step.completed, step.unit) for step in seen if step.event == "complete"]
    [('train_ivf', 3, 'iterations'), ('shuffle', 2, 'rows'), ('merge_partitions', 1, 'partitions')]
    """

    event: Literal["start", "progress", "complete"]
    stage: str
    completed: int | None = None
    total: int | None = None
    unit: str = ""

    @property
    def fraction(self) -> float | None:
        """The share that is done, at most 1; `None` if it is not known.

        Examples
        --------
        >>> from pennon.progress import IndexProgress
        >>> IndexProgress("progress", "load_data", 25, 100, "rows").fraction
        0.25
        """
        if self.completed is None or not self.total:
            return None
        return min(self.completed / self.total, 1.0)


class FragmentWriteProgress(ABC):
    """What is called when fragments are written. Derive from it.

    Examples
    --------
    >>> from pennon import DataFile, FragmentMetadata
    >>> from pennon.progress import FragmentWriteProgress
    >>> class Counter(FragmentWriteProgress):
    ...     rows = 0
    ...
    ...     def begin(self, fragment, **kwargs):
    ...         pass
    ...
    ...     def complete(self, fragment, **kwargs):
    ...         self.rows += fragment.physical_rows
    >>> counter = Counter()
    >>> counter.complete(FragmentMetadata(0, [], 10))
    >>> counter.rows
    10
    """

    def _do_begin(self, fragment_json: str, **kwargs: Any) -> None:
        """Calls `begin` with the fragment of this JSON."""
        self.begin(_fragment(fragment_json), **kwargs)

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """A fragment is about to be written.

        Parameters
        ----------
        fragment
            As far as it is known: without files, which it has in `pylance`, and its id may not be assigned yet.
        **kwargs
            For what releases to come may add.

        Examples
        --------
        >>> from pennon import FragmentMetadata
        >>> from pennon.progress import FragmentWriteProgress
        >>> class Announcer(FragmentWriteProgress):
        ...     def begin(self, fragment, **kwargs):
        ...         print("fragment", fragment.id, "started")
        ...
        ...     def complete(self, fragment, **kwargs):
        ...         pass
        >>> Announcer().begin(FragmentMetadata(3, [], 0))
        fragment 3 started
        """

    def _do_complete(self, fragment_json: str, **kwargs: Any) -> None:
        """Calls `complete` with the fragment of this JSON."""
        self.complete(_fragment(fragment_json), **kwargs)

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """A fragment is written.

        Parameters
        ----------
        fragment
            With its files and rows.
        **kwargs
            For what releases to come may add.

        Examples
        --------
        >>> import pennon
        >>> from pennon.progress import FragmentWriteProgress
        >>> class Announcer(FragmentWriteProgress):
        ...     def begin(self, fragment, **kwargs):
        ...         pass
        ...
        ...     def complete(self, fragment, **kwargs):
        ...         print(fragment.physical_rows, "rows")
        >>> options = {"mode": "overwrite", "max_rows_per_file": 2, "progress": Announcer()}
        >>> _ = pennon.write_dataset({"a": [1, 2, 3]}, "memory://progress-complete", **options)
        2 rows
        1 rows
        """


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Reports nothing: a default for programs that take a progress.

    Examples
    --------
    >>> import pennon
    >>> from pennon.progress import NoopFragmentWriteProgress
    >>> quiet = NoopFragmentWriteProgress()
    >>> pennon.write_dataset({"a": [1]}, "memory://progress-noop", mode="overwrite", progress=quiet).count_rows()
    1
    """

    def begin(self, fragment: FragmentMetadata, **kargs: Any) -> None:
        """Does nothing.

        Examples
        --------
        >>> from pennon import FragmentMetadata
        >>> from pennon.progress import NoopFragmentWriteProgress
        >>> NoopFragmentWriteProgress().begin(FragmentMetadata(0, [], 0))
        """

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Does nothing.

        Examples
        --------
        >>> from pennon import FragmentMetadata
        >>> from pennon.progress import NoopFragmentWriteProgress
        >>> NoopFragmentWriteProgress().complete(FragmentMetadata(0, [], 10))
        """


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Records the fragments of a write in a directory.

    `begin` writes `fragment_ID.json`, the fragment as [FragmentMetadata.to_json][pennon.FragmentMetadata.to_json]
    gives it, and `fragment_ID.in_progress`, a JSON object with `fragment_id` and `metadata`; `complete` removes the
    latter. So the files that end in `in_progress` tell what a writer that died was writing.

    Parameters
    ----------
    base_uri
        The directory: a path, or a URI of a file system of pyarrow. It is created when it is needed.
    metadata
        Texts that tell which worker writes, for example.

    Raises
    ------
    pennon.InvalidInputError
        `base_uri` is not the URI of a directory, or `metadata` cannot be JSON.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pennon
    >>> from pennon.progress import FileSystemFragmentWriteProgress
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     progress = FileSystemFragmentWriteProgress(folder, {"worker": "7"})
    ...     _ = pennon.write_dataset({"a": [1]}, "memory://progress-files", mode="overwrite", progress=progress)
    ...     [file.name for file in pathlib.Path(folder).iterdir()]
    ['fragment_0.json']
    """

    PROGRESS_EXT = ".in_progress"

    def __init__(self, base_uri: str, metadata: dict[str, str] | None = None) -> None:
        if not isinstance(base_uri, str | os.PathLike):
            raise InvalidInputError(f"The directory is a {type(base_uri).__name__}, expected a path or a URI")
        address = os.fspath(base_uri)
        if "://" not in address and not address.startswith("file:"):
            address = Path(address).absolute().as_uri()
        try:
            self._fs, self._base_path = pyarrow.fs.FileSystem.from_uri(address)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(f"The directory for progress is {base_uri!r}: {error}") from error
        self._metadata = dict(metadata or {})
        try:
            json.dumps(self._metadata)
        except TypeError as error:
            raise InvalidInputError(f"The metadata is {metadata!r}, expected texts by name: {error}") from error

    def _in_progress_path(self, fragment: FragmentMetadata) -> str:
        return f"{self._base_path}/fragment_{_id(fragment)}{self.PROGRESS_EXT}"

    def _fragment_file(self, fragment: FragmentMetadata) -> str:
        return f"{self._base_path}/fragment_{_id(fragment)}.json"

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Writes both files.

        Raises
        ------
        pennon.StoreError
            They cannot be written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from pennon import FragmentMetadata
        >>> from pennon.progress import FileSystemFragmentWriteProgress
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     FileSystemFragmentWriteProgress(folder, {"worker": "7"}).begin(FragmentMetadata(0, [], 0))
        ...     pathlib.Path(folder, "fragment_0.in_progress").read_text()
        '{"fragment_id": 0, "metadata": {"worker": "7"}}'
        """
        del kwargs
        paths = self._in_progress_path(fragment), self._fragment_file(fragment)
        texts = {"fragment_id": fragment.id, "metadata": self._metadata}, fragment.to_json()
        try:
            self._fs.create_dir(self._base_path, recursive=True)
            for path, text in zip(paths, texts, strict=True):
                with self._fs.open_output_stream(path) as file:
                    file.write(json.dumps(text).encode())
        except OSError as error:
            message = f"The progress of fragment {fragment.id} cannot be written: {error}"
            raise StoreError(message, path=self._base_path, fragment=fragment.id) from error

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Removes `fragment_ID.in_progress`.

        Raises
        ------
        pennon.NotFoundError
            There is no such file: `begin` was not called for this fragment.
        pennon.StoreError
            It cannot be removed.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from pennon import FragmentMetadata
        >>> from pennon.progress import FileSystemFragmentWriteProgress
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     progress = FileSystemFragmentWriteProgress(folder)
        ...     progress.begin(FragmentMetadata(0, [], 0))
        ...     progress.complete(FragmentMetadata(0, [], 10))
        ...     [file.name for file in pathlib.Path(folder).iterdir()]
        ['fragment_0.json']
        """
        del kwargs
        path = self._in_progress_path(fragment)
        try:
            self._fs.delete_file(path)
        except FileNotFoundError as error:
            message = f"Fragment {fragment.id} was not begun: there is no {path}"
            raise NotFoundError(message, path=path, fragment=fragment.id) from error
        except OSError as error:
            message = f"The progress of fragment {fragment.id} cannot be removed: {error}"
            raise StoreError(message, path=path, fragment=fragment.id) from error


def _fragment(text: str) -> FragmentMetadata:
    try:
        return FragmentMetadata.from_json(text)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"The fragment is {text[:100]!r}, expected the JSON of one: {error!r}") from error


def _id(fragment: FragmentMetadata) -> int:
    if not hasattr(fragment, "id"):
        raise InvalidInputError(f"The fragment is a {type(fragment).__name__}, expected a FragmentMetadata")
    return fragment.id
