"""The methods of `LanceDataset`, noun by noun: signatures and documentation, over the functions of `_table`."""
