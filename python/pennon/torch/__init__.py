"""Tables as datasets of PyTorch; see `pennon.torch.data`. PyTorch is needed only where a dataset is made."""
