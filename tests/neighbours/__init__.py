"""Other releases of pylance: what they read of Pennon's tables, and what Pennon reads of theirs."""
