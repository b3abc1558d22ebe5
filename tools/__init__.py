"""What maintainers run: mutants, releases."""
