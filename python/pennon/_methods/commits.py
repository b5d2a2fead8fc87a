"""Transactions, config and metadata of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon._methods.base import TableMethods
from pennon._options import checked_names
from pennon._readers import check_row_ids
from pennon._table import commits

if TYPE_CHECKING:
    from pennon.transaction import Transaction


class CommitMethods(TableMethods):
    """The methods of `LanceDataset` for transactions, config and metadata."""

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that made a version; `None` if it was not kept.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://read-transaction", mode="overwrite")
        >>> type(table.read_transaction(1).operation).__name__
        'Overwrite'
        """
        return commits.read(self._native, version)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """The transactions of the newest versions up to this one, newest first; only its own if detached.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://get-transactions", mode="overwrite")
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> [type(one.operation).__name__ for one in table.get_transactions()]
        ['Delete', 'Overwrite']
        """
        return commits.newest(self._native, recent_transactions)

    def migrate_manifest_paths_v2(self) -> None:
        """Rename the manifests of an older table so that the newest is listed first.

        No writer may commit to the table while this runs. After an interrupted call, call it again; until then the
        table only opens by version number.

        Examples
        --------
        >>> import pennon
        >>> uri = "memory://migrate-manifests"
        >>> table = pennon.write_dataset({"a": [1]}, uri, mode="overwrite", enable_v2_manifest_paths=False)
        >>> table.migrate_manifest_paths_v2()
        >>> pennon.dataset(uri).latest_version
        1
        """
        self._native.migrate_manifest_paths_v2()

    def migrate_to_stable_row_ids(self) -> None:
        """Give the rows of a table that was made without stable row ids such ids, by a new version.

        The ids are the addresses that the rows have now, which are their ids without stable row ids. No row is
        written again, and indices are kept: the commit costs what the list of fragments costs. The change feed,
        `history` and ids that outlive updates and compactions begin with this version. Rows from before have it as
        `_row_created_at_version` and `_row_last_updated_at_version`, which were not recorded.

        A table that has stable row ids is left as it is. It cannot be undone: versions from before can be read, not
        restored. Others may write meanwhile: this is tried again then. Indices do not cover fragments that were
        compacted with `defer_index_remap` until `optimize.optimize_indices()`.

        Raises
        ------
        pennon.InvalidInputError
            The config names a reader (`compatible_with`) that cannot read stable row ids.
        pennon.CommitConflictError
            Others committed all the time, or changed the schema at that moment.

        Examples
        --------
        >>> import pennon
        >>> uri = "memory://migrate-ids"
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, uri, mode="overwrite", enable_stable_row_ids=False)
        >>> table.migrate_to_stable_row_ids()
        >>> table.update({"a": "a * 10"}, where="a = 2")
        {'num_rows_updated': 1}
        >>> table.take_rows([1])["a"].to_pylist(), table.history(1)["_change_type"].to_pylist()
        ([20], ['insert', 'update'])
        """
        newest = self.checkout_version(self.latest_version)
        check_row_ids(newest.config(), newest.data_storage_version)
        self._native.migrate_to_stable_row_ids()

    # Config and metadata.

    def config(self) -> dict[str, str]:
        """Settings kept in the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://config-of", mode="overwrite")
        >>> table.update_config({"owner": "ada"})
        {'owner': 'ada'}
        >>> table.config()
        {'owner': 'ada'}
        """
        return self._native.config

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://metadata-of", mode="overwrite")
        >>> _ = table.update_metadata({"owner": "ada"})
        >>> table.metadata
        {'owner': 'ada'}
        """
        return self._native.table_metadata

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Metadata of the schema.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"a": [1]}, metadata={"source": "sensors"})
        >>> table = pennon.write_dataset(data, "memory://schema-metadata", mode="overwrite")
        >>> table.schema_metadata
        {'source': 'sensors'}
        """
        return self._native.lance_schema["metadata"]

    def update_config(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change settings, and move to the new version.

        Parameters
        ----------
        values
            New values; a key with `None` is removed.
        replace
            Whether all other settings are removed.

        Returns
        -------
        dict
            All settings afterwards.

        Raises
        ------
        pennon.InvalidInputError
            A setting that the table format uses cannot be parsed.
        pennon.CommitConflictError
            Another writer changed the same keys after this version.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://config", mode="overwrite")
        >>> table.update_config({"owner": "flights", "stage": "raw"})
        {'owner': 'flights', 'stage': 'raw'}
        >>> table.update_config({"stage": None})
        {'owner': 'flights'}
        """
        self._native.update_map("config", commits.updates(values), replace)
        return self.config()

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove settings, and move to the new version.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delete-config", mode="overwrite")
        >>> _ = table.update_config({"owner": "ada"})
        >>> table.delete_config_keys(["owner"])
        >>> table.config()
        {}
        """
        self._native.update_map("config", dict.fromkeys(checked_names("keys", keys)), False)

    def update_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the table, and move to the new version; as `update_config`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://update-metadata", mode="overwrite")
        >>> table.update_metadata({"source": "sensors"})
        {'source': 'sensors'}
        >>> table.metadata
        {'source': 'sensors'}
        """
        self._native.update_map("table", commits.updates(values), replace)
        return self.metadata

    def update_schema_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the schema, and move to the new version; as `update_config`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://update-schema-metadata", mode="overwrite")
        >>> table.update_schema_metadata({"unit": "mm"})
        {'unit': 'mm'}
        """
        self._native.update_map("schema", commits.updates(values), replace)
        return self.schema_metadata

    def update_field_metadata(
        self, field_updates: dict[str, dict[str, str | None]], *, replace: bool = False
    ) -> None:
        """Change the metadata of fields, by their paths, and move to the new version; as `update_config`.

        Raises
        ------
        pennon.InvalidInputError
            There is no such field.
        pennon.InvalidTypeError
            The paths or the values are not texts.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://update-field-metadata", mode="overwrite")
        >>> table.update_field_metadata({"a": {"unit": "mm"}})
        >>> table.schema.field("a").metadata
        {b'unit': b'mm'}
        """
        self._native.update_field_metadata(commits.field_updates(field_updates), replace)
