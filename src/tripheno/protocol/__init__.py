"""What hospitals agreed on (`federation.toml`), and what each keeps to itself (`site.toml`)."""
