"""What several tests import; a module per subject. Fixtures and hooks are in the `conftest.py` of each folder."""
