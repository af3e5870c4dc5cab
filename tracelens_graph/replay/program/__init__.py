"""What programs are put together from: read as source by whatever writes one, imported where PyTorch is."""
