"""Indices, built by tasks, each a segment over some fragments; the driver commits them together.

What an index over vectors is built with, its centroids and codebook, is found on the driver once for all tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.executor import run_tasks
from pyspark_pennon.frames import parallelism
from pyspark_pennon.handle import TableHandle
from pyspark_pennon.retries import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INDICES = (
    "name string, type string, columns array<string>, segments int, indexed_fragments int, indexed_rows long, "
    "unindexed_fragments int, unindexed_rows long, size_bytes long"
)


@dataclass(frozen=True)
class _Build:
    """A segment over some fragments of a version."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    version: int
    column: str
    kind: Any
    name: str
    fragments: list[int]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> Any:
        """The entry of the segment, which is not committed."""
        import pennon

        table = pennon.dataset(self.uri, version=self.version, storage_options=dict(self.storage_options) or None)
        return table.create_index_uncommitted(
            self.column, self.kind, self.name, replace=True, fragment_ids=self.fragments, **self.parameters
        )


class IndexMethods(TableHandle):
    """The methods of `LanceTable` that are about indices."""

    def createIndex(  # noqa: N802 - as the other verbs are spelled
        self,
        column: str,
        index_type: str = "BTREE",
        name: str | None = None,
        *,
        replace: bool = True,
        parameters: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Make an index over the values of a column, or over vectors.

        Tasks build it over some fragments each, balanced by rows; it is committed at once. Filters of the wheel and
        of pylance are answered by it from then on, and `filter_sql=` of a read; searches for the nearest vectors
        use one over vectors.

        Parameters
        ----------
        column
            A column, or the path of a nested field.
        index_type
            `"BTREE"`, `"BITMAP"`, `"ZONEMAP"`, `"BLOOMFILTER"` or, for lists, `"LABEL_LIST"`; for vectors
            `"IVF_FLAT"`, `"IVF_PQ"`, `"IVF_SQ"` and with graphs `"IVF_HNSW_FLAT"`, `"IVF_HNSW_PQ"`,
            `"IVF_HNSW_SQ"`.
        name
            Its name, `<column>_idx` by default.
        replace
            Whether an index of that name over the same column is replaced; otherwise that is an error.
        parameters
            Those of the kind, as `{"zone_size": 4096}` of a B-tree, or
            `{"metric": "cosine", "num_partitions": 256, "num_sub_vectors": 48}` of one over vectors.
        progress
            Whether a line on standard error shows what is done, as in `executeCompaction`.

        Raises
        ------
        pennon.NotFoundError
            There is no such table or column.
        pennon.AlreadyExistsError
            The name is taken.
        pennon.SchemaMismatchError, pennon.UnsupportedError
            The kind cannot have values of this type, or cannot be made.
        """
        from pennon import AlreadyExistsError
        from pennon.indices import IndexConfig

        is_vector = index_type.upper().startswith("IVF")
        kind: Any = index_type
        if parameters is not None and not is_vector:
            kind = IndexConfig(index_type, dict(parameters))
        chosen = f"{column}_idx" if name is None else name

        def attempt() -> None:
            table = self._open()
            if not replace and any(index["name"] == chosen for index in table.list_indices()):
                raise AlreadyExistsError(f"Index name '{chosen}' already exists: give another one, or replace=True")
            shared: dict[str, Any] | None = {}
            if is_vector:
                shared = _shared_model(table, column, index_type, dict(parameters or {}))
            tasks = [
                _Build(
                    self._uri, self._storage_options, table.version, column, kind, chosen, fragments, shared or {}
                )
                for fragments in tables.fragment_groups(table, parallelism(self._spark))
            ]
            if tasks and shared is not None:
                about = f"index {chosen} of {self._uri}"
                segments = run_tasks(self._spark, tasks, about, progress=progress)
                table.commit_existing_index_segments(chosen, column, segments)
            elif is_vector:
                table.create_index(column, index_type, chosen, replace=True, **dict(parameters or {}))
            else:
                table.create_scalar_index(column, kind, chosen)

        retried(attempt, f"the index {chosen} of {self._uri}", is_repeatable=True)

    def optimizeIndices(  # noqa: N802
        self, names: list[str] | None = None, *, retrain: bool = False
    ) -> None:
        """Take rows into indices that these do not cover; on the driver.

        Parameters
        ----------
        names
            The indices; all by default.
        retrain
            Whether they are built again from all rows.

        Raises
        ------
        pennon.NotFoundError
            No index has one of the names.
        """
        self._open().optimize.optimize_indices(index_names=names, retrain=retrain)

    def dropIndex(self, name: str) -> None:  # noqa: N802
        """Remove an index. Raises `pennon.NotFoundError` if none has the name."""
        self._open().drop_index(name)

    def indices(self) -> DataFrame:
        """The indices: a row each, with how many fragments and rows it covers."""
        table = self._open()
        rows = []
        for index in table.describe_indices():
            figures = table.index_statistics(index.name)
            rows.append(
                (
                    index.name,
                    index.index_type,
                    index.field_names,
                    len(index.segments),
                    figures["num_indexed_fragments"],
                    figures["num_indexed_rows"],
                    figures["num_unindexed_fragments"],
                    figures["num_unindexed_rows"],
                    index.total_size_bytes,
                )
            )
        return self._frame(rows, _INDICES)


def _shared_model(table: Any, column: str, kind: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The parameters of each part of an index over vectors; `None` if the table has too few vectors for parts."""
    from pennon import InvalidInputError
    from pennon.indices import IndicesBuilder

    if "ivf_centroids" in parameters:
        return parameters
    training = {name: parameters[name] for name in ("sample_rate", "max_iters") if name in parameters}
    partitions = parameters.get("num_partitions") or _partitions(table, kind, parameters)
    builder = IndicesBuilder(table, column)
    try:
        ivf = builder.train_ivf(partitions, distance_type=parameters.get("metric", "l2"), **training)
        shared = {**parameters, "num_partitions": None, "ivf_centroids": ivf.centroids}
        if kind.upper() in ("IVF_PQ", "IVF_HNSW_PQ") and parameters.get("num_sub_vectors"):
            bits = parameters.get("num_bits", 8)
            pq = builder.train_pq(ivf, parameters["num_sub_vectors"], num_bits=bits, **training)
            shared["pq_codebook"] = pq.codebook
    except InvalidInputError as error:
        if "too few vectors" in str(error):
            return None
        raise
    return shared


def _partitions(table: Any, kind: str, parameters: dict[str, Any]) -> int:
    """How many partitions the wheel makes if their number is not given."""
    usual = {"IVF_FLAT": 4096, "IVF_PQ": 8192, "IVF_SQ": 8192}.get(kind.upper(), 1 << 20)
    rows = int(table.count_rows())
    return min(4096, max(1, rows // (parameters.get("target_partition_size") or usual)))
