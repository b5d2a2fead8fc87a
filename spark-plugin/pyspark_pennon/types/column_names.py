"""Names of columns as users spell them, found among those of a table by Spark's rule.

The same name counts first. Without `spark.sql.caseSensitive` a name that differs by case only is the same column,
which keeps the spelling of the table; where several do, neither is meant. The processes in which Spark plans a data
source do not know the setting: there case does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark_pennon.errors import invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = r"`(?:[^`]|``)+`|[^`.]+"
_QUALIFIED = re.compile(rf"(?:(?P<alias>{_PART})\.)?(?P<column>{_PART})")
"""The name of a column in Spark's SQL, by itself or after that of a table."""


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether names of columns differ by case in a session."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def stored_name(names: Sequence[str], name: str, *, is_sensitive: bool) -> str | None:
    """The one of `names` that is meant by a name; None if there is none.

    Raises
    ------
    pennon.InvalidInputError
        Several differ from it by case only.
    """
    if name in names or is_sensitive:
        return name if name in names else None
    found = [known for known in names if known.lower() == name.lower()]
    if len(found) > 1:
        raise invalid(f"'{name}' may be each of the columns {', '.join(found)}, which differ by case only")
    return found[0] if found else None


def stored_names(names: Sequence[str], given: Sequence[str], *, is_sensitive: bool) -> list[str]:
    """The same columns as `names` spell them; others are left as they are."""
    return [stored_name(names, name, is_sensitive=is_sensitive) or name for name in given]


def assigned_name(names: Sequence[str], key: str, alias: str | None, *, is_sensitive: bool) -> str | None:
    """The column that a key of `set=` names: as it is, in back ticks, or after the alias of the table."""
    found = stored_name(names, key, is_sensitive=is_sensitive)
    parts = _QUALIFIED.fullmatch(key)
    if found is not None or parts is None:
        return found
    if parts["alias"] is not None:
        given = _unquoted(parts["alias"])
        if alias is None or (given != alias and (is_sensitive or given.lower() != alias.lower())):
            return None
    return stored_name(names, _unquoted(parts["column"]), is_sensitive=is_sensitive)


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuse a column that is named twice."""
    for at, name in enumerate(names):
        if name in names[:at]:
            raise invalid(f"The column '{name}' is named twice: expected each of the columns once")


def with_stored_names(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """The frame with columns that differ from those of a table by case only renamed to them."""
    found = stored_names(names, frame.columns, is_sensitive=is_case_sensitive(frame.sparkSession))
    return frame if found == frame.columns else frame.toDF(*found)


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part
