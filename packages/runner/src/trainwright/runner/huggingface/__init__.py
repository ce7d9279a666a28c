"""Hugging Face directories: what is in one, which weights of ours its tensors are, and how one is written.

One module a family holds the names and sizes of that family and nothing else: `model_config` reads its `config.json`,
`hf_config` writes one, `rules` says which tensors make which of ours.
"""
