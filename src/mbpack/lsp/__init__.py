"""The language server: the doctor's findings, keys and fixes while a file is being written (extra `lsp`)."""
