"""Index documents in the background: text, pages, images, words and checksums of real files."""
