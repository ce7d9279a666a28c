"""Supervised fine-tuning data: rows, what they mean, token ids, and the order in which a run reads them.

rows -> adapters -> preprocess -> dataset -> order -> collate; each file says its own part.
"""
