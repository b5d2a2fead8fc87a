"""What indices of a dataset consist of: their entries, the parameters and the centroids of their segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon._methods.base import TableMethods
from pennon._options import checked_text
from pennon.errors import InvalidInputError
from pennon.indices import config, entries, index_over_vectors, ivf_model

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.indices import IndexConfig, IvfModel
    from pennon.transaction import Index


class IndexPartMethods(TableMethods):
    """The methods of `LanceDataset` that read what an index consists of."""

    def index_entries(self, index_name: str) -> list[Index]:
        """The entries of an index in the manifest, one for each segment, as transactions have them.

        A [CreateIndex][pennon.LanceOperation.CreateIndex] names them where it replaces segments, and
        [merge_existing_index_segments][pennon.LanceDataset.merge_existing_index_segments] makes one of several.

        Raises
        ------
        pennon.NotFoundError
            No index has this name. It is also a `KeyError`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(10)}, "memory://index-entries", mode="overwrite")
        >>> table.create_scalar_index("a", "BITMAP")
        >>> [(entry.name, entry.fragment_ids) for entry in table.index_entries("a_idx")]
        [('a_idx', {0})]
        """
        return entries(self._native, index_name)

    def index_config(self, index_name: str) -> IndexConfig:
        """The kind and the parameters with which another segment of an index is made.

        The parameters of an index over values are those that
        [create_scalar_index][pennon.LanceDataset.create_scalar_index] takes an `IndexConfig` with. Those of an
        index over vectors are arguments of
        [create_index_uncommitted][pennon.LanceDataset.create_index_uncommitted], `ivf_centroids` and
        `pq_codebook` of the newest segment among them, as arrays of fixed-size lists. The bounds of scalar
        quantization are those of the vectors of a segment, and cannot be given.

        Raises
        ------
        pennon.NotFoundError
            No index has this name. It is also a `KeyError`.
        pennon.UnsupportedError
            It is of a kind that is read and not made.

        Examples
        --------
        >>> import pennon
        >>> from pennon.indices import IndexConfig
        >>> table = pennon.write_dataset({"a": range(10)}, "memory://index-config", mode="overwrite")
        >>> table.create_scalar_index("a", IndexConfig("BTREE", {"zone_size": 4}))
        >>> table.index_config("a_idx")
        IndexConfig(index_type='BTREE', parameters={'zone_size': 4})
        """
        return config(self._native, index_name)

    def get_ivf_model(self, index_name: str) -> IvfModel | None:
        """The centroids of the newest segment of an index over vectors, with their metric.

        Parameters
        ----------
        index_name
            The index.

        Returns
        -------
        pennon.indices.IvfModel, or None
            Nothing for an index that was made with `train=False` and has not been trained since.

        Raises
        ------
        pennon.NotFoundError
            No index has this name.
        pennon.InvalidInputError
            It is an index over values.

        Examples
        --------
        >>> import pennon
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[n % 7, n % 11] for n in range(500)])
        >>> table = pennon.write_dataset(data, "memory://get-ivf-model", mode="overwrite")
        >>> table = table.create_index("vector", "IVF_FLAT", metric="cosine", num_partitions=3)
        >>> table.get_ivf_model("vector_idx")
        IvfModel(3 partitions, cosine)
        """
        return ivf_model(self._native, checked_text("index_name", index_name))

    def centroids(
        self, *, index_name: str | None = None, column: str | None = None
    ) -> pa.FixedSizeListArray | None:
        """The centroids of the newest segment of an index over vectors, as fixed-size lists.

        Parameters
        ----------
        index_name
            The index.
        column
            Without a name, the column that the index is over: the first index is taken.

        Raises
        ------
        pennon.NotFoundError
            No index has this name, or there is none over vectors of this column.
        pennon.InvalidInputError
            It is an index over values, or neither a name nor a column is given.

        Examples
        --------
        >>> import pennon
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[n % 7, n % 11] for n in range(500)])
        >>> table = pennon.write_dataset(data, "memory://centroids", mode="overwrite")
        >>> table = table.create_index("vector", "IVF_FLAT", num_partitions=3)
        >>> table.centroids(column="vector").type
        FixedSizeListType(fixed_size_list<item: float>[2])
        """
        if index_name is None:
            if column is None:
                raise InvalidInputError("Must provide 'index_name' or 'column'.")
            index_name = index_over_vectors(self._native, checked_text("column", column))
        model = self.get_ivf_model(index_name)
        return None if model is None else model.centroids
