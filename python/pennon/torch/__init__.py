"""Tables as datasets of PyTorch; see `pennon.torch.data`. PyTorch is needed only where a dataset is made."""

from pennon._compatibility import explain_absent_names

explain_absent_names(__name__)
