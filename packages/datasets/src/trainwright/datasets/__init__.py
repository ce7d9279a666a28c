"""What a run reads: corpora, tokenizers and loaders."""
