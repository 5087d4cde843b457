"""Record batches of format 2, the records in them, and the codecs that compress them."""
