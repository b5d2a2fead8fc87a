"""What parts of an index over vectors are built with, found once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._compatibility import ExplainsAbsence, explain_absent_names
from pennon._options import refuse
from pennon.errors import InvalidInputError, TooFewVectorsError
from pennon.indices._vector_request import vector_request
from pennon.indices.ivf import IvfModel
from pennon.indices.pq import PqModel

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon._protocols import Table

__all__ = ["IndicesBuilder"]

explain_absent_names(__name__)


class IndicesBuilder(ExplainsAbsence):
    """Finds centroids and codebooks for parts of an index that several processes build.

    Parameters
    ----------
    dataset
        A [LanceDataset][pennon.LanceDataset].
    column
        The column of vectors.

    Examples
    --------
    >>> import pennon
    >>> from pennon.indices import IndicesBuilder
    >>> from pennon.vector import vec_to_table
    >>> data = vec_to_table([[n % 7, n % 11] for n in range(500)])
    >>> table = pennon.write_dataset(data, "memory://builder", mode="overwrite", max_rows_per_file=250)
    >>> ivf = IndicesBuilder(table, "vector").train_ivf(4)
    >>> parts = [
    ...     table.create_index_uncommitted(
    ...         "vector", "IVF_FLAT", fragment_ids=[id], ivf_centroids=ivf.centroids
    ...     )
    ...     for id in range(2)
    ... ]
    >>> table.commit_existing_index_segments("vector_idx", "vector", parts)
    LanceDataset('memory://builder', version=2, rows=500)
    """

    def __init__(self, dataset: Table, column: str) -> None:
        self.dataset = dataset
        self.column = [column]

    def train_ivf(
        self,
        num_partitions: int | None = None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: list[int] | None = None,
    ) -> IvfModel:
        """Find the centroids of partitions.

        Parameters
        ----------
        num_partitions
            How many; the square root of the number of rows, rounded, if not given.
        distance_type
            The metric.
        accelerator
            Not supported.
        sample_rate
            Rows of the sample for each centroid.
        max_iters
            Passes over the sample at most.
        fragment_ids
            The fragments whose rows are looked at; all if not given.

        Raises
        ------
        pennon.InvalidInputError
            There are no vectors, or a number is out of its range.

        Examples
        --------
        >>> import pennon
        >>> from pennon.indices import IndicesBuilder
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[n % 2, n % 3] for n in range(60)])
        >>> table = pennon.write_dataset(data, "memory://train-ivf", mode="overwrite")
        >>> IndicesBuilder(table, "vector").train_ivf(3, distance_type="cosine")
        IvfModel(3 partitions, cosine)
        """
        refuse(accelerator=accelerator)
        partitions = num_partitions or max(1, round(self.dataset._native.count_rows(None) ** 0.5))
        given = {"num_partitions": partitions, "sample_rate": sample_rate, "max_iters": max_iters}
        found = self._train("IVF_FLAT", distance_type, fragment_ids, None, given)
        return IvfModel(found["ivf_centroids"], distance_type)

    def train_pq(
        self,
        ivf_model: IvfModel,
        num_subvectors: int | None = None,
        *,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: list[int] | None = None,
    ) -> PqModel:
        """Find the codebook of product quantization around given centroids.

        Parameters
        ----------
        ivf_model
            The centroids.
        num_subvectors
            Codes of a vector; a sixteenth, else an eighth of its dimension if not given.
        sample_rate, max_iters, fragment_ids
            As in [train_ivf][pennon.indices.IndicesBuilder.train_ivf].
        num_bits
            Bits of a code: 8 or 4.

        Raises
        ------
        pennon.InvalidInputError
            There are fewer vectors than codes, or a number is out of its range.

        Examples
        --------
        >>> import pennon
        >>> from pennon.indices import IndicesBuilder
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[n % 2, n % 3, n % 5, n % 7] for n in range(300)])
        >>> builder = IndicesBuilder(pennon.write_dataset(data, "memory://train-pq", mode="overwrite"), "vector")
        >>> builder.train_pq(builder.train_ivf(2), 2, num_bits=4)
        PqModel(2 sub-vectors, 4 bits)
        """
        count = num_subvectors or _sub_vectors(ivf_model.centroids.type.list_size)
        given = {
            "num_sub_vectors": count,
            "num_bits": num_bits,
            "sample_rate": sample_rate,
            "max_iters": max_iters,
        }
        found = self._train("IVF_PQ", ivf_model.distance_type, fragment_ids, ivf_model.centroids, given)
        codebook = found["pq_codebook"]
        assert codebook is not None
        return PqModel(count, codebook, num_bits=num_bits)

    def prepare_global_ivf_pq(
        self,
        num_partitions: int | None,
        num_subvectors: int | None,
        *,
        distance_type: str = "l2",
        accelerator: Any = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: list[int] | None = None,
    ) -> dict[str, pa.FixedSizeListArray]:
        """Find both: a dictionary with `ivf_centroids` and `pq_codebook`, arrays of fixed-size lists.

        Parameters
        ----------
        num_partitions, distance_type, accelerator, sample_rate, max_iters, fragment_ids
            As in [train_ivf][pennon.indices.IndicesBuilder.train_ivf].
        num_subvectors, num_bits
            As in [train_pq][pennon.indices.IndicesBuilder.train_pq].

        Examples
        --------
        >>> import pennon
        >>> from pennon.indices import IndicesBuilder
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[n % 2, n % 3, n % 5, n % 7] for n in range(300)])
        >>> builder = IndicesBuilder(pennon.write_dataset(data, "memory://ivf-pq", mode="overwrite"), "vector")
        >>> {name: len(found) for name, found in builder.prepare_global_ivf_pq(3, 2, num_bits=4).items()}
        {'ivf_centroids': 3, 'pq_codebook': 16}
        """
        ivf = self.train_ivf(
            num_partitions,
            distance_type=distance_type,
            accelerator=accelerator,
            sample_rate=sample_rate,
            max_iters=max_iters,
            fragment_ids=fragment_ids,
        )
        pq = self.train_pq(
            ivf,
            num_subvectors,
            sample_rate=sample_rate,
            max_iters=max_iters,
            num_bits=num_bits,
            fragment_ids=fragment_ids,
        )
        return {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}

    def _train(
        self,
        kind: str,
        metric: str,
        fragments: list[int] | None,
        centroids: pa.FixedSizeListArray | None,
        given: dict[str, Any],
    ) -> _native.ModelParts:
        new = vector_request(
            self.column[0],
            kind,
            None,
            metric,
            replace=True,
            train=True,
            uuid=None,
            ivf_centroids=centroids,
            pq_codebook=None,
            given=given,
        )
        found = _native.train_vector_index(self.dataset._native, new, fragments)
        if found is None:
            column = self.column[0]
            raise TooFewVectorsError(f"Column {column!r} has too few vectors to train an index of the kind {kind}")
        return found


def _sub_vectors(dimension: int) -> int:
    for part in (16, 8):
        if dimension % part == 0:
            return dimension // part
    raise InvalidInputError(f"num_subvectors is required: the dimension {dimension} is not a multiple of 8")
