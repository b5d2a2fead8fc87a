"""`Session`: caches that several tables share."""

from __future__ import annotations

from typing import Any

from pennon import _native
from pennon._options import ignored, refuse
from pennon.errors import InvalidTypeError

__all__ = ["Session"]


class Session:
    """What tables opened with it share: manifests, descriptions of files, deletion vectors, indexes of row ids.

    Every call of [dataset][pennon.dataset] and [write_dataset][pennon.write_dataset] makes a session of its own
    unless it is given one. With one session, opening a table again costs a look whether it has changed. A session
    is not pickled, and a forked process starts with an empty one.

    Parameters
    ----------
    metadata_cache_size_bytes
        Bytes to keep, 256 MiB by default.
    index_cache_size_bytes
        Accepted, without effect: what is kept has one budget.
    index_cache_backend, metadata_cache_backend, store_registry
        Not supported.

    Examples
    --------
    >>> import pennon
    >>> session = pennon.Session()
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://session", mode="overwrite", session=session)
    >>> again = pennon.dataset("memory://session", session=session)
    >>> again.session().is_same_as(session)
    True
    >>> session.size_bytes() > 0
    True
    """

    def __init__(
        self,
        index_cache_size_bytes: int | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_backend: Any | None = None,
        metadata_cache_backend: Any | None = None,
        store_registry: Any | None = None,
    ) -> None:
        refuse(
            index_cache_backend=index_cache_backend,
            metadata_cache_backend=metadata_cache_backend,
            store_registry=store_registry,
        )
        ignored(index_cache_size_bytes=index_cache_size_bytes)
        self._native = _native.Session(metadata_cache_size_bytes)

    @classmethod
    def _of(cls, native: _native.Session) -> Session:
        session = cls.__new__(cls)
        session._native = native
        return session

    def __repr__(self) -> str:
        return f"Session(size_bytes={self.size_bytes()}, metadata_cache_size_bytes={self._native.capacity})"

    def size_bytes(self) -> int:
        """Bytes that are kept at the moment.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://session-size", mode="overwrite")
        >>> session = pennon.Session()
        >>> before = session.size_bytes()
        >>> pennon.dataset("memory://session-size", session=session).to_table().num_rows
        3
        >>> session.size_bytes() > before
        True
        """
        return self._native.size_bytes()

    def index_cache_size_bytes(self) -> int:
        """Always 0: what is kept of indices is counted by `size_bytes`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(100)}, "memory://session-index", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> before = table.session().size_bytes()
        >>> table.prewarm_index("a_idx")
        >>> table.session().size_bytes() > before, table.session().index_cache_size_bytes()
        (True, 0)
        """
        return 0

    def is_same_as(self, other: Session) -> bool:
        """Whether both are the same caches.

        Examples
        --------
        >>> import pennon
        >>> session = pennon.Session()
        >>> session.is_same_as(session), session.is_same_as(pennon.Session())
        (True, False)
        """
        native = native_session(other)
        return native is not None and self._native.is_same_as(native)


def native_session(session: Any) -> _native.Session | None:
    """The caches of a session, `None` if there is none. Raises `InvalidTypeError` for anything else."""
    if session is None:
        return None
    if not isinstance(session, Session):
        raise InvalidTypeError(f"session must be a Session, got {type(session)}")
    return session._native
