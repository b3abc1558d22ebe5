"""A certificate of a study whose days are over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key


def let_run_out(certificate: Path, engine: Path) -> None:
    """The study's own authority, in the coordinator's folder, signs the key until yesterday."""
    key = load_pem_private_key((engine / "authority" / "rootCA.key").read_bytes(), None)
    assert isinstance(key, RSAPrivateKey)
    old = x509.load_pem_x509_certificate(certificate.read_bytes())
    yesterday = datetime.now(UTC) - timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(yesterday - timedelta(days=30))
        .not_valid_after(yesterday)
    )
    for extension in old.extensions:
        made = made.add_extension(extension.value, critical=extension.critical)
    certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
