"""What the segments of an index are built with: found once for all tasks, or that of a segment that there is."""

from __future__ import annotations

from typing import Any

VALUE_KINDS = ("BTREE", "BITMAP", "LABEL_LIST", "ZONEMAP", "BLOOMFILTER")
"""Kinds of indices over values that tasks make."""

_TRAINED = ("ivf_centroids", "pq_codebook")


def retrained(table: Any, column: str, config: Any) -> dict[str, Any] | None:
    """The parameters of new segments of an index over vectors, with as many partitions as it has.

    None if it has none, or if the table has too few vectors for parts.
    """
    if "ivf_centroids" not in config.parameters:
        return None
    given = {name: value for name, value in config.parameters.items() if name not in _TRAINED}
    given["num_partitions"] = len(config.parameters["ivf_centroids"])
    return shared_model(table, column, config.index_type, given)


def model(config: Any) -> dict[str, Any] | None:
    """The parameters of a further segment, which has the centroids and the codebook of another one.

    None if these cannot be given: the bounds of scalar quantization are always those of the rows.
    """
    if config.index_type.endswith("_SQ") or "ivf_centroids" not in config.parameters:
        return None
    return dict(config.parameters)


def shared_model(table: Any, column: str, kind: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The parameters of each part of an index over vectors; `None` if the table has too few vectors for parts."""
    from pennon.errors import TooFewVectorsError
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
    except TooFewVectorsError:
        return None
    return shared


def _partitions(table: Any, kind: str, parameters: dict[str, Any]) -> int:
    """How many partitions the wheel makes if their number is not given."""
    usual = {"IVF_FLAT": 4096, "IVF_PQ": 8192, "IVF_SQ": 8192}.get(kind.upper(), 1 << 20)
    rows = int(table.count_rows())
    return min(4096, max(1, rows // (parameters.get("target_partition_size") or usual)))
