"""Models of pydantic as rows: the schema of a model, and types for columns of vectors.

`pennon.write_dataset` takes lists of models; `pennon.LanceDataset.from_pydantic_model` also names the table after
the model. Pydantic 2 is needed, which an installation of Pennon does not bring.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from datetime import date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import pyarrow as pa

from pennon._compatibility import explain_absent_names
from pennon._optional import require
from pennon._python_values import rows_to_table
from pennon.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

__all__ = [
    "FixedSizeListMixin",
    "MultiVector",
    "Vector",
    "get_extras",
    "is_nullable",
    "pydantic_to_schema",
]

explain_absent_names(__name__)

_FLOAT = pa.float32()
_SCALARS = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.utf8(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    date: pa.date32(),
}


class FixedSizeListMixin(ABC):
    """Base of the types that `Vector` and `MultiVector` make.

    Examples
    --------
    >>> from pennon.pydantic import FixedSizeListMixin, Vector
    >>> issubclass(Vector(2), FixedSizeListMixin), Vector(2)([0.5, 1.5])
    (True, [0.5, 1.5])
    """

    @staticmethod
    @abstractmethod
    def dim() -> int:
        """How many values a vector has.

        Examples
        --------
        >>> from pennon.pydantic import Vector
        >>> Vector(768).dim()
        768
        """

    @staticmethod
    @abstractmethod
    def value_arrow_type() -> pa.DataType:
        """The type of the values.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.pydantic import Vector
        >>> Vector(2).value_arrow_type(), Vector(2, pa.float16()).value_arrow_type()
        (DataType(float), DataType(halffloat))
        """


def Vector(  # noqa: N802
    dim: int, value_type: pa.DataType = _FLOAT, nullable: bool = True
) -> type[FixedSizeListMixin]:
    """The type of a field of a model that is a vector.

    Parameters
    ----------
    dim
        How many values a vector has.
    value_type
        Type of the values in the table.
    nullable
        Whether the column may have nulls.

    Examples
    --------
    >>> import pydantic
    >>> class Picture(pydantic.BaseModel):
    ...     id: int
    ...     embedding: Vector(2)
    >>> pydantic_to_schema(Picture).field("embedding").type
    FixedSizeListType(fixed_size_list<item: float>[2])
    """
    return _vector_type("Vector", dim, value_type, nullable, is_multi_vector=False)


def MultiVector(  # noqa: N802
    dim: int, value_type: pa.DataType = _FLOAT, nullable: bool = True
) -> type[FixedSizeListMixin]:
    """The type of a field of a model that is a list of vectors; parameters as for `Vector`.

    Examples
    --------
    >>> import pydantic
    >>> class Page(pydantic.BaseModel):
    ...     patches: MultiVector(2)
    >>> pydantic_to_schema(Page).field("patches").type
    ListType(list<item: fixed_size_list<item: float>[2]>)
    """
    return _vector_type("MultiVector", dim, value_type, nullable, is_multi_vector=True)


def get_extras(field: FieldInfo, key: str) -> Any:
    """A value of the `json_schema_extra` of a field; `None` if it is not there.

    Examples
    --------
    >>> from datetime import datetime
    >>> import pydantic
    >>> from pennon.pydantic import get_extras
    >>> class Visit(pydantic.BaseModel):
    ...     at: datetime = pydantic.Field(json_schema_extra={"tz": "UTC"})
    >>> get_extras(Visit.model_fields["at"], "tz")
    'UTC'
    """
    extras = field.json_schema_extra
    return extras.get(key) if isinstance(extras, dict) else None


def is_nullable(field: FieldInfo) -> bool:
    """Whether the column of a field may have nulls: `Optional`, `... | None`, or a nullable vector.

    A default value does not make a field nullable.

    Examples
    --------
    >>> import pydantic
    >>> from pennon.pydantic import is_nullable
    >>> class User(pydantic.BaseModel):
    ...     name: str = ""
    ...     age: int | None = None
    >>> {name: is_nullable(field) for name, field in User.model_fields.items()}
    {'name': False, 'age': True}
    """
    annotation: Any = field.annotation
    if _is_class(annotation, FixedSizeListMixin):
        return bool(annotation.nullable())
    return type(None) in _alternatives(annotation)


def pydantic_to_schema(model: type[BaseModel]) -> pa.Schema:
    """The schema of a model.

    Nested models are structs, enumerations of text are dictionaries, and `datetime` has the time zone that
    `Field(json_schema_extra={"tz": ...})` names.

    Parameters
    ----------
    model
        A subclass of `pydantic.BaseModel`.

    Raises
    ------
    pennon.InvalidTypeError
        A field has a type that no column has, or a list does not say what it holds.

    Examples
    --------
    >>> import pydantic
    >>> class User(pydantic.BaseModel):
    ...     name: str
    ...     age: int | None = None
    >>> pydantic_to_schema(User)
    name: string not null
    age: int64
    """
    return pa.schema(_fields(model))


def is_models(data: Any) -> bool:
    """Whether the data is a list that begins with a model."""
    return isinstance(data, list) and bool(data) and _is_model_class(type(data[0]))


def models_to_table(
    data: Any,
    model: type[BaseModel] | None = None,
    schema: pa.Schema | None = None,
    table_schema: pa.Schema | None = None,
) -> pa.Table:
    """The rows of models, which all have exactly the class of the first, or `model`.

    Their types are those of the model, unless there is a schema of the rows, or of a table that they are for.

    Raises
    ------
    pennon.InvalidTypeError
        The data is not a list, or an item has another class: a subclass may have fields that are not in the schema.
    """
    if not isinstance(data, list):
        raise InvalidTypeError(f"Models must be provided as a list, got {type(data)}")
    expected = type(data[0]) if model is None else model
    for at, item in enumerate(data):
        if type(item) is not expected:
            raise InvalidTypeError(f"data[{at}] must be of the class {expected} exactly, found {type(item)}")
    rows = [_plain(item.model_dump()) for item in data]
    if schema is None and table_schema is None:
        schema = pydantic_to_schema(expected)
    return rows_to_table(rows, schema, table_schema)


def checked_model(model_class: Any, data: Any) -> type[BaseModel]:
    """A class of models that has been checked, with data that is not empty."""
    require("pydantic", "pydantic", "from_pydantic_model")
    if not _is_model_class(model_class):
        raise InvalidTypeError(f"model_class must be a BaseModel subclass of pydantic, got {model_class!r}")
    if isinstance(data, list) and not data:
        raise InvalidInputError("Models must be provided as a list that is not empty")
    return model_class  # type: ignore[no-any-return]


def _vector_type(
    name: str, size: int, value_type: pa.DataType, may_be_null: bool, *, is_multi_vector: bool
) -> type[FixedSizeListMixin]:
    class VectorType(list, FixedSizeListMixin):  # type: ignore[type-arg]
        @staticmethod
        def dim() -> int:
            return size

        @staticmethod
        def value_arrow_type() -> pa.DataType:
            return value_type

        @staticmethod
        def nullable() -> bool:
            return may_be_null

        @staticmethod
        def is_multi_vector() -> bool:
            return is_multi_vector

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            core = require("pydantic_core", "pydantic", name).core_schema
            vector = core.list_schema(core.float_schema(), min_length=size, max_length=size)
            return core.no_info_after_validator_function(
                cls, core.list_schema(vector) if is_multi_vector else vector
            )

    VectorType.__name__ = VectorType.__qualname__ = f"{name}({size})"
    return VectorType


def _fields(model: type[BaseModel]) -> list[pa.Field]:
    return [
        pa.field(name, _arrow_type(field.annotation, field), is_nullable(field))
        for name, field in model.model_fields.items()
    ]


def _arrow_type(annotation: Any, field: FieldInfo) -> pa.DataType:
    if get_origin(annotation) is Annotated:
        return _arrow_type(get_args(annotation)[0], field)
    values = [item for item in _alternatives(annotation) if item is not type(None)]
    if len(values) == 1:
        return _arrow_type(values[0], field)
    if get_origin(annotation) in (list, tuple) and get_args(annotation):
        return pa.list_(_arrow_type(get_args(annotation)[0], field))
    if _is_class(annotation, FixedSizeListMixin):
        vector = pa.list_(annotation.value_arrow_type(), annotation.dim())
        return pa.list_(vector) if annotation.is_multi_vector() else vector
    if _is_class(annotation, Enum):
        return _enumeration(annotation)
    if annotation is datetime:
        return pa.timestamp("us", tz=get_extras(field, "tz"))
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if _is_model_class(annotation):
        return pa.struct(_fields(annotation))
    hint = ": say what it holds, as in list[int]" if annotation in (list, tuple) else ""
    raise InvalidTypeError(f"There is no column type for unsupported type {annotation} of a model{hint}")


def _enumeration(annotation: type[Enum]) -> pa.DataType:
    found = {type(member.value) for member in annotation}
    if found == {str}:
        return pa.dictionary(pa.int32(), pa.utf8())
    return _SCALARS.get(found.pop(), pa.utf8()) if len(found) == 1 else pa.utf8()


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The types of a union; none if it is not a union."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else ()


def _is_class(annotation: Any, base: type) -> bool:
    return isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, base)


def _is_model_class(found: Any) -> bool:
    # Nothing is a model before pydantic has been imported, which takes longer than Pennon.
    return isinstance(found, type) and any(base.__module__.startswith("pydantic.") for base in found.__mro__)


def _plain(value: Any) -> Any:
    """A value with those of enumerations instead of their members."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
