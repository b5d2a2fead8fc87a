"""An open table, noun by noun: functions of its native handle, which know nothing of `LanceDataset`."""
