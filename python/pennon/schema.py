"""The schema of a table with its field ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from pennon import _native
from pennon._compatibility import ExplainsAbsence, explain_absent_names
from pennon._render import Grid, listed, panel
from pennon._schema_json import json_to_schema, schema_to_json
from pennon.errors import InvalidTypeError

__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]

explain_absent_names(__name__)


class _Name(str):
    """A name that can be called, as the method of pylance is."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


class _Id(int):
    """An id that can be called, as the method of pylance is."""

    __slots__ = ()

    def __call__(self) -> int:
        return int(self)


@dataclass(frozen=True)
class LanceField:
    """A field of the schema. Its name and its id can be called, as methods that return them.

    Attributes
    ----------
    name
        Name of the field, without those of its parents.
    id
        Id of the field, which a rename does not change.
    logical_type
        Name of the type in the table format.
    nullable
        Whether the field may hold nulls.
    metadata
        Metadata of the field.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://lance-field", mode="overwrite")
    >>> (field,) = table.lance_schema.fields()
    >>> field.name(), field.id(), field.to_arrow()
    ('a', 0, pyarrow.Field<a: int64>)
    """

    name: str
    id: int
    logical_type: str
    nullable: bool
    metadata: dict[str, str] = field(default_factory=dict)
    _children: tuple[LanceField, ...] = ()
    # Whether it is part of the primary key, its position in it, and the same for the clustering key.
    _keys: tuple[bool, int, bool, int] = field(default=(False, 0, False, 0), repr=False)

    def children(self) -> list[LanceField]:
        """The nested fields: those of a struct, or the one of the items of a list.

        Examples
        --------
        >>> import pennon
        >>> data = {"at": [{"lat": 1.5, "lon": 2.5}]}
        >>> table = pennon.write_dataset(data, "memory://field-children", mode="overwrite")
        >>> [(field.name(), field.id()) for field in table.lance_schema.field("at").children()]
        [('lat', 1), ('lon', 2)]
        """
        return list(self._children)

    def is_unenforced_primary_key(self) -> bool:
        """Whether it is part of the declared primary key, which is not enforced.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon import LanceSchema
        >>> metadata = {"lance-schema:unenforced-primary-key": "true"}
        >>> schema = pa.schema([pa.field("id", pa.int64(), False, metadata), pa.field("name", pa.string())])
        >>> {field.name(): field.is_unenforced_primary_key() for field in LanceSchema.from_pyarrow(schema).fields()}
        {'id': True, 'name': False}
        """
        return self._keys[0]

    def is_unenforced_clustering_key(self) -> bool:
        """Whether it is part of the declared clustering key.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon import LanceSchema
        >>> metadata = {"lance-schema:unenforced-clustering-key:position": "1"}
        >>> schema = LanceSchema.from_pyarrow(pa.schema([pa.field("day", pa.date32(), metadata=metadata)]))
        >>> schema.field("day").is_unenforced_clustering_key()
        True
        """
        return self._keys[3] > 0

    def unenforced_primary_key_position(self) -> int | None:
        """Its position in the declared primary key, from 1 on; `None` if it has none.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon import LanceSchema
        >>> key = "lance-schema:unenforced-primary-key"
        >>> columns = [("day", pa.date32(), "2"), ("id", pa.int64(), "1")]
        >>> schema = pa.schema(
        ...     [pa.field(n, t, False, {key: "true", f"{key}:position": at}) for n, t, at in columns]
        ... )
        >>> [field.unenforced_primary_key_position() for field in LanceSchema.from_pyarrow(schema).fields()]
        [2, 1]
        """
        return self._keys[1] or None

    def unenforced_clustering_key_position(self) -> int | None:
        """Its position in the declared clustering key, from 1 on; `None` if it has none.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon import LanceSchema
        >>> metadata = {"lance-schema:unenforced-clustering-key:position": "1"}
        >>> schema = pa.schema([pa.field("day", pa.date32(), metadata=metadata), pa.field("id", pa.int64())])
        >>> [field.unenforced_clustering_key_position() for field in LanceSchema.from_pyarrow(schema).fields()]
        [1, None]
        """
        return self._keys[3] or None

    def to_arrow(self) -> pa.Field:
        """The field as an Arrow field, without ids.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [[1, 2]]}, "memory://field-arrow", mode="overwrite")
        >>> table.lance_schema.field("a").to_arrow()
        pyarrow.Field<a: list<item: int64>>
        """
        return LanceSchema((self,)).to_pyarrow().field(0)

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()

    @classmethod
    def _of(cls, parts: _native.SchemaField) -> LanceField:
        return cls(
            _Name(parts["name"]),
            _Id(parts["id"]),
            parts["logical_type"],
            parts["nullable"],
            parts["metadata"],
            tuple(cls._of(child) for child in parts["children"]),
            parts["keys"],
        )


@dataclass(frozen=True)
class LanceSchema(ExplainsAbsence):
    """The fields of a table with their ids.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1]}, "memory://schema", mode="overwrite")
    >>> [(field.name, field.id, field.logical_type) for field in table.lance_schema.fields()]
    [('a', 0, 'int64')]
    """

    _fields: tuple[LanceField, ...]
    metadata: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"LanceSchema({listed([f.name for f in self._fields], len(self._fields))})"

    def _repr_html_(self) -> str:
        rows = ((f.id, f.name, f.logical_type, "yes" if f.nullable else "no") for f in self._fields)
        return panel("LanceSchema", None, Grid(("id", "field", "type", "nullable"), rows, len(self._fields)))

    def fields(self) -> list[LanceField]:
        """The fields of the top level, in their order; [children][pennon.LanceField.children] has the nested ones.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1], "b": ["x"]}, "memory://schema-fields", mode="overwrite")
        >>> table.drop_columns(["a"])
        >>> table.add_columns({"c": "upper(b)"})
        >>> [(field.name(), field.id()) for field in table.lance_schema.fields()]
        [('b', 1), ('c', 2)]
        """
        return list(self._fields)

    def field(self, name: str) -> LanceField | None:
        """The field at a dotted path; `None` if there is no such field.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1], "Name": ["x"]}, "memory://schema-field", mode="overwrite")
        >>> table.lance_schema.field("a").id()
        0
        """
        found: LanceField | None = None
        fields = self._fields
        for part in name.split("."):
            found = next((field for field in fields if field.name == part), None)
            if found is None:
                return None
            fields = found._children
        return found

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """As `field`, for a path whose names may be written in upper or lower case; equal names come first.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1], "Name": ["x"]}, "memory://schema-case", mode="overwrite")
        >>> table.lance_schema.field_case_insensitive("NAME").name()
        'Name'
        """
        found: LanceField | None = None
        fields = self._fields
        for part in name.split("."):
            alike = [field for field in fields if field.name.lower() == part.lower()]
            found = next((field for field in alike if field.name == part), alike[0] if alike else None)
            if found is None:
                return None
            fields = found._children
        return found

    def unenforced_primary_key(self) -> list[LanceField]:
        """The fields of the declared primary key, in its order; the key is not enforced.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon import LanceSchema
        >>> metadata = {"lance-schema:unenforced-primary-key": "true"}
        >>> schema = pa.schema([pa.field("id", pa.int64(), False, metadata), pa.field("name", pa.string())])
        >>> [field.name() for field in LanceSchema.from_pyarrow(schema).unenforced_primary_key()]
        ['id']
        """
        keys = [field for field in self._all() if field.is_unenforced_primary_key()]
        return sorted(keys, key=lambda field: field._keys[1])

    def unenforced_clustering_key(self) -> list[LanceField]:
        """The fields of the declared clustering key, in its order.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon import LanceSchema
        >>> key = "lance-schema:unenforced-clustering-key:position"
        >>> columns = [("id", pa.int64(), "2"), ("day", pa.date32(), "1")]
        >>> schema = pa.schema([pa.field(name, kind, metadata={key: at}) for name, kind, at in columns])
        >>> [field.name() for field in LanceSchema.from_pyarrow(schema).unenforced_clustering_key()]
        ['day', 'id']
        """
        keys = [field for field in self._all() if field.is_unenforced_clustering_key()]
        return sorted(keys, key=lambda field: field._keys[3])

    def _all(self) -> list[LanceField]:
        """The fields with the nested ones, parents first."""
        found = list(self._fields)
        for parent in found:
            found.extend(parent._children)
        return found

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """A schema whose fields get the ids 0, 1, 2 ..., parents before children, as in a new table.

        Raises
        ------
        pennon.InvalidTypeError
            `schema` is not a `pyarrow.Schema`.
        pennon.UnsupportedError
            A field has a type that tables do not have.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon import LanceSchema
        >>> schema = pa.schema([("at", pa.struct([("lat", pa.float64())])), ("name", pa.string())])
        >>> [(field.name(), field.id()) for field in LanceSchema.from_pyarrow(schema).fields()]
        [('at', 0), ('name', 2)]
        """
        if not isinstance(schema, pa.Schema):
            raise InvalidTypeError(f"Expected a pyarrow.Schema, got {type(schema)}")
        return LanceSchema._of(_native.schema_from_arrow(schema))

    def to_pyarrow(self) -> pa.Schema:
        """The schema as an Arrow schema, without ids.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1], "Name": ["x"]}, "memory://schema-arrow", mode="overwrite")
        >>> table.lance_schema.to_pyarrow().names
        ['a', 'Name']
        """
        return _native.schema_to_arrow(self)

    def __arrow_c_schema__(self) -> object:
        return self.to_pyarrow().__arrow_c_schema__()

    @classmethod
    def _of(cls, parts: _native.SchemaParts) -> LanceSchema:
        return cls(tuple(LanceField._of(field) for field in parts["fields"]), parts["metadata"])
