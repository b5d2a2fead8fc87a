"""The metadata of a fragment in a version, and its JSON, which is that of pylance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from pennon import _native
from pennon._options import deprecated, loading
from pennon.errors import InvalidInputError, InvalidTypeError, UnsupportedError

if TYPE_CHECKING:
    from pennon._protocols import Handle

__all__ = ["DataFile", "DeletionFile", "FragmentMetadata", "RowDatasetVersionMeta", "RowIdMeta", "RowIdSequence"]

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass
class DataFile:
    """A data file of a fragment; `path` is relative to the data directory.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://data-file", mode="overwrite")
    >>> (file,) = table.get_fragment(0).data_files()
    >>> file.fields, (file.file_major_version, file.file_minor_version), file.path.endswith(".lance")
    ([0], (2, 2), True)
    """

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.path, str):
            self.path = _CallablePath(self.path)

    @classmethod
    def create(cls, dataset: Handle, path: str, *, base_id: int | None = None) -> DataFile:
        """Describe a data file that was written elsewhere, for a `LanceOperation.DataReplacement` for example.

        Parameters
        ----------
        dataset
            The table whose fields have the names of the file's columns.
        path
            Name of the file in the data directory.
        base_id
            The base path of the file, if it is not in the table's own root.

        Raises
        ------
        pennon.NotFoundError
            There is no such file.
        pennon.InvalidInputError
            The base path is not registered, or the table does not have a column of the file.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://describe", mode="overwrite")
        >>> (file,) = table.get_fragment(0).data_files()
        >>> pennon.DataFile.create(table, file.path) == file
        True
        """
        return cls(**dataset._native.describe_file(path, base_id)[0])

    def field_ids(self) -> list[int]:
        """Deprecated: use `fields`.

        Examples
        --------
        >>> import warnings
        >>> from pennon import DataFile
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     DataFile("a.lance", [0, 1]).field_ids()
        [0, 1]
        """
        deprecated("DataFile.field_ids", "DataFile.fields")
        return self.fields


@dataclass(frozen=True)
class DeletionFile:
    """A deletion file: which rows of a fragment are deleted.

    Examples
    --------
    >>> file = DeletionFile(7, 9, "array", 3)
    >>> file.path(2)
    '_deletions/2-7-9.arrow'
    >>> DeletionFile.from_json(file.json()) == file
    True
    """

    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None = None

    def __post_init__(self) -> None:
        if self.file_type not in ("array", "bitmap"):
            raise InvalidInputError(f"file_type must be 'array' or 'bitmap', got {self.file_type!r}")

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Path of the file of a fragment, relative to the table or below `base_uri`.

        Examples
        --------
        >>> from pennon.fragment import DeletionFile
        >>> file = DeletionFile(read_version=7, id=9, file_type="array", num_deleted_rows=3)
        >>> file.path(2)
        '_deletions/2-7-9.arrow'
        >>> file.path(2, "s3://bucket/people.lance")
        's3://bucket/people.lance/_deletions/2-7-9.arrow'
        """
        extension = "arrow" if self.file_type == "array" else "bin"
        path = f"_deletions/{fragment_id}-{self.read_version}-{self.id}.{extension}"
        return path if base_uri is None else f"{base_uri}/{path}"

    def asdict(self) -> dict[str, Any]:
        """Its attributes by name.

        Examples
        --------
        >>> from pennon.fragment import DeletionFile
        >>> file = DeletionFile(read_version=7, id=9, file_type="array", num_deleted_rows=3)
        >>> file.asdict()
        {'read_version': 7, 'id': 9, 'file_type': 'array', 'num_deleted_rows': 3, 'base_id': None}
        """
        return asdict(self)

    def json(self) -> str:
        """Its attributes as JSON text.

        Examples
        --------
        >>> from pennon.fragment import DeletionFile
        >>> file = DeletionFile(read_version=7, id=9, file_type="array", num_deleted_rows=3)
        >>> file.json()
        '{"read_version":7,"id":9,"file_type":"array","num_deleted_rows":3,"base_id":null}'
        """
        return _dumps(self.asdict())

    @staticmethod
    def from_json(json: str) -> DeletionFile:
        """The inverse of `json`. Raises `InvalidInputError` for other text.

        Examples
        --------
        >>> from pennon.fragment import DeletionFile
        >>> DeletionFile.from_json('{"read_version":7,"id":9,"file_type":"bitmap","num_deleted_rows":3}').path(2)
        '_deletions/2-7-9.bin'
        """
        return _deletion_file(_parsed(json, "DeletionFile"))


@dataclass(frozen=True)
class RowIdMeta:
    """The stable row ids of a fragment: encoded in the manifest, or `None` for a column of a data file.

    Examples
    --------
    >>> RowIdMeta(bytes([10, 4, 10, 2, 16, 3])).json()
    '{"Inline":[10,4,10,2,16,3]}'
    """

    inline: bytes | None

    def asdict(self) -> Any:
        """The value that `json` encodes.

        Examples
        --------
        >>> from pennon.fragment import RowIdMeta
        >>> RowIdMeta(bytes([10, 4, 10, 2, 16, 3])).asdict(), RowIdMeta(None).asdict()
        ({'Inline': [10, 4, 10, 2, 16, 3]}, 'Column')
        """
        return "Column" if self.inline is None else {"Inline": list(self.inline)}

    def json(self) -> str:
        """JSON text of the ids, for `from_json` of pylance or Pennon.

        Examples
        --------
        >>> from pennon.fragment import RowIdMeta
        >>> RowIdMeta(None).json()
        '"Column"'
        """
        return _dumps(self.asdict())

    @staticmethod
    def from_dict(dict: Any) -> RowIdMeta:
        """The inverse of `asdict`. Raises `InvalidInputError` for other values.

        Examples
        --------
        >>> from pennon.fragment import RowIdMeta
        >>> RowIdMeta.from_dict({"Inline": [10, 4, 10, 2, 16, 3]}).inline.hex()
        '0a040a021003'
        """
        if dict in ("Column", {"Column": None}):
            return RowIdMeta(None)
        return RowIdMeta(_inline(dict, "Inline", "RowIdMeta"))

    @staticmethod
    def from_json(json: str) -> RowIdMeta:
        """The inverse of `json`. Raises `InvalidInputError` for other text.

        Examples
        --------
        >>> from pennon.fragment import RowIdMeta
        >>> RowIdMeta.from_json('{"Inline":[10,4,10,2,16,3]}') == RowIdMeta(bytes([10, 4, 10, 2, 16, 3]))
        True
        """
        return RowIdMeta.from_dict(_parsed(json, "RowIdMeta"))


class RowIdSequence:
    """The stable row ids of a fragment.

    Parameters
    ----------
    row_ids
        Distinct numbers from 0 on, or an array of them.

    Examples
    --------
    >>> sequence = RowIdSequence([0, 1, 2])
    >>> sequence.to_inline_metadata().json()
    '{"Inline":[10,4,10,2,16,3]}'
    >>> RowIdSequence.from_inline_metadata(sequence.to_inline_metadata()) == sequence
    True
    """

    def __init__(self, row_ids: Iterable[int] | pa.Array | pa.ChunkedArray) -> None:
        is_array = isinstance(row_ids, (pa.Array, pa.ChunkedArray))
        if isinstance(row_ids, (pa.Array, pa.ChunkedArray)):
            if row_ids.null_count:
                raise InvalidInputError(
                    f"Row ids must not be null, but the array has {row_ids.null_count} null values"
                )
            if not pa.types.is_integer(row_ids.type):
                raise InvalidInputError(f"Row ids must be an array of integers, got {row_ids.type}")
            row_ids = row_ids.to_pylist()
        if not isinstance(row_ids, Iterable):
            raise InvalidTypeError(f"Row ids must be an iterable of integers, got {type(row_ids)}")
        is_range, found = isinstance(row_ids, range), list(row_ids)
        if (is_array or is_range) and min(found, default=0) < 0:
            raise InvalidInputError(f"Row ids must be non-negative, as uint64 is, got {min(found)}")
        self._inline = bytes(_native.encode_row_ids(found))

    @staticmethod
    def from_inline_metadata(metadata: RowIdMeta) -> RowIdSequence:
        """The ids of a fragment's metadata. Raises `UnsupportedError` for ids in a column of a data file.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://row-id-sequence", mode="overwrite")
        >>> table.delete("a = 2")
        {'num_deleted_rows': 1}
        >>> pennon.fragment.RowIdSequence.from_inline_metadata(table.get_fragment(0).metadata.row_id_meta)
        RowIdSequence([0, 1, 2])
        """
        if metadata.inline is None:
            raise UnsupportedError("Row ids stored outside the manifest cannot be read into a RowIdSequence")
        _native.count_row_ids(metadata.inline)
        sequence = RowIdSequence(())
        sequence._inline = metadata.inline
        return sequence

    def to_inline_metadata(self) -> RowIdMeta:
        """The ids as the metadata of a fragment has them: encoded, runs in few bytes.

        Examples
        --------
        >>> from pennon.fragment import RowIdSequence
        >>> RowIdSequence(range(1_000_000)).to_inline_metadata().json()
        '{"Inline":[10,6,10,4,16,192,132,61]}'
        """
        return RowIdMeta(self._inline)

    def to_pyarrow(self) -> pa.UInt64Array:
        """The ids as an array, in their order.

        Examples
        --------
        >>> from pennon.fragment import RowIdSequence
        >>> RowIdSequence([7, 3]).to_pyarrow().to_pylist()
        [7, 3]
        """
        return pa.array(_native.decode_row_ids(self._inline), pa.uint64())

    def __len__(self) -> int:
        return _native.count_row_ids(self._inline)

    def __iter__(self) -> Iterator[int]:
        return iter(_native.decode_row_ids(self._inline))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowIdSequence):
            return NotImplemented
        return self._inline == other._inline or self.to_pyarrow().equals(other.to_pyarrow())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        ids = self.to_pyarrow()
        if len(ids) <= 10:
            return f"RowIdSequence({ids.to_pylist()})"
        return f"RowIdSequence([{', '.join(map(str, ids[:10].to_pylist()))}, ...], len={len(ids)})"


@dataclass(frozen=True)
class RowDatasetVersionMeta:
    """The versions in which the rows of a fragment were created or last updated; see `RowIdMeta`.

    Examples
    --------
    >>> RowDatasetVersionMeta(None).json()
    '{"column":{}}'
    """

    inline: bytes | None

    def asdict(self) -> Any:
        """The value that `json` encodes.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://version-meta", mode="overwrite")
        >>> table.get_fragment(0).metadata.created_at_version_meta.asdict()
        {'inline': [10, 8, 10, 4, 10, 2, 16, 3, 16, 1]}
        >>> pennon.fragment.RowDatasetVersionMeta(None).asdict()
        {'column': {}}
        """
        return {"column": {}} if self.inline is None else {"inline": list(self.inline)}

    def json(self) -> str:
        """JSON text of the versions, for `from_json` of pylance or Pennon.

        Examples
        --------
        >>> from pennon.fragment import RowDatasetVersionMeta
        >>> RowDatasetVersionMeta(bytes([10, 6])).json()
        '{"inline":[10,6]}'
        """
        return _dumps(self.asdict())

    @staticmethod
    def from_json(json: str) -> RowDatasetVersionMeta:
        """The inverse of `json`. Raises `InvalidInputError` for other text.

        Examples
        --------
        >>> from pennon.fragment import RowDatasetVersionMeta
        >>> RowDatasetVersionMeta.from_json('{"inline":[10,6]}').inline.hex()
        '0a06'
        >>> RowDatasetVersionMeta.from_json('{"column":{}}').inline is None
        True
        """
        value = _parsed(json, "RowDatasetVersionMeta")
        if value == {"column": {}}:
            return RowDatasetVersionMeta(None)
        return RowDatasetVersionMeta(_inline(value, "inline", "RowDatasetVersionMeta"))


@dataclass
class FragmentMetadata:
    """The metadata of a fragment in a version.

    Examples
    --------
    >>> import json
    >>> fragment = FragmentMetadata(0, [DataFile("a.lance", [0], [0], 2, 2, 639)], 3)
    >>> FragmentMetadata.from_json(json.dumps(fragment.to_json())) == fragment
    True
    """

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None
    overlays: list[Any] = field(default_factory=list)
    # The choice given to `write_fragments`, which is the default of a commit that creates a table.
    _stable_row_ids: bool | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def num_deletions(self) -> int:
        """Deleted rows.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://metadata-deletions", mode="overwrite")
        >>> table.delete("a > 1")
        {'num_deleted_rows': 2}
        >>> table.get_fragment(0).metadata.num_deletions
        2
        """
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Rows that are not deleted.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://metadata-rows", mode="overwrite")
        >>> table.delete("a > 1")
        {'num_deleted_rows': 2}
        >>> metadata = table.get_fragment(0).metadata
        >>> metadata.num_rows, metadata.physical_rows
        (1, 3)
        """
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """Deprecated: use `files`.

        Examples
        --------
        >>> import warnings
        >>> from pennon import DataFile, FragmentMetadata
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     [file.path for file in FragmentMetadata(0, [DataFile("a.lance", [0])], 3).data_files()]
        ['a.lance']
        """
        deprecated("FragmentMetadata.data_files", "FragmentMetadata.files")
        return self.files

    def to_json(self) -> dict[str, Any]:
        """The metadata as JSON values: for `json.dumps`, and `from_json` of pylance or Pennon.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://metadata-to-json", mode="overwrite")
        >>> parts = table.get_fragment(0).metadata.to_json()
        >>> parts["id"], parts["physical_rows"], parts["files"][0]["fields"], parts["deletion_file"]
        (0, 3, [0], None)
        """
        parts = {
            "id": self.id,
            "files": [_file_json(file) for file in self.files],
            "overlays": list(self.overlays),
            "physical_rows": self.physical_rows,
            "deletion_file": _or_none(DeletionFile.asdict, self.deletion_file),
            "row_id_meta": _or_none(RowIdMeta.asdict, self.row_id_meta),
            "created_at_version_meta": _or_none(RowDatasetVersionMeta.asdict, self.created_at_version_meta),
            "last_updated_at_version_meta": _or_none(
                RowDatasetVersionMeta.asdict, self.last_updated_at_version_meta
            ),
        }
        if self._stable_row_ids is not None:
            # The choice given to `write_fragments`; pylance ignores it.
            parts["enable_stable_row_ids"] = self._stable_row_ids
        return parts

    @staticmethod
    def from_json(json_data: str) -> FragmentMetadata:
        """The inverse of `to_json`, of pylance or Pennon, from text.

        Raises
        ------
        pennon.MissingKeyError
            A key is missing.
        pennon.InvalidInputError
            The text is not JSON, or a value is invalid.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://metadata-from-json", mode="overwrite")
        >>> import json
        >>> metadata = table.get_fragment(0).metadata
        >>> pennon.FragmentMetadata.from_json(json.dumps(metadata.to_json())) == metadata
        True
        """
        with loading("FragmentMetadata"):
            return FragmentMetadata._of_json(json.loads(json_data))

    @staticmethod
    def _of_json(parts: dict[str, Any]) -> FragmentMetadata:
        def versions(name: str) -> RowDatasetVersionMeta | None:
            value = parts.get(name)
            return None if value is None else RowDatasetVersionMeta.from_json(_dumps(value))

        fragment = FragmentMetadata(
            id=parts["id"],
            files=[DataFile(**file) for file in parts["files"]],
            physical_rows=parts["physical_rows"],
            deletion_file=_or_none(_deletion_file, parts.get("deletion_file")),
            row_id_meta=_or_none(RowIdMeta.from_dict, parts.get("row_id_meta")),
            created_at_version_meta=versions("created_at_version_meta"),
            last_updated_at_version_meta=versions("last_updated_at_version_meta"),
            overlays=parts.get("overlays") or [],
        )
        fragment._stable_row_ids = parts.get("enable_stable_row_ids")
        return fragment

    @classmethod
    def _of(cls, parts: _native.FragmentParts) -> FragmentMetadata:
        def versions(value: _native.LineageParts | None) -> RowDatasetVersionMeta | None:
            return None if value is None else RowDatasetVersionMeta(**value)

        ids, deletion = parts["row_id_meta"], parts["deletion_file"]
        return cls(
            parts["id"],
            [DataFile(**file) for file in parts["files"]],
            parts["physical_rows"],
            None if deletion is None else DeletionFile(**deletion),
            None if ids is None else RowIdMeta(**ids),
            versions(parts["created_at_version_meta"]),
            versions(parts["last_updated_at_version_meta"]),
            list(parts["overlays"]),
        )


class _CallablePath(str):
    """A path that can be called, as programs for older releases of pylance do."""

    __slots__ = ()

    def __call__(self) -> str:
        deprecated("DataFile.path()", "DataFile.path")
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _CallablePath, (str(self),)


def _or_none(convert: Callable[[_T], _R], value: _T | None) -> _R | None:
    return None if value is None else convert(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _parsed(text: str, what: str) -> Any:
    with loading(what):
        return json.loads(text)


def _inline(value: Any, name: str, what: str) -> bytes:
    try:
        ((found, numbers),) = value.items()
        if found == name:
            return bytes(numbers)
    except (AttributeError, TypeError, ValueError):
        pass
    raise InvalidInputError(f"Could not load {what}: expected {{{name!r}: [bytes]}}, found {value!r}")


def _deletion_file(parts: dict[str, Any]) -> DeletionFile:
    with loading("DeletionFile"):
        return DeletionFile(**parts)


def _file_json(file: DataFile) -> dict[str, Any]:
    parts = asdict(file)
    # Last, as in pylance.
    parts["path"] = parts.pop("path")
    return parts
