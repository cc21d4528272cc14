import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from dualmind.errors import LineageError, SigningKeyError
from dualmind.lineage.keys import make_key, open_key, read_public
from dualmind.lineage.times import parse_time, stamp
from tests.lineage.project import TIME


def test_the_development_key_is_made_on_first_use_and_stays(tmp_path: Path) -> None:
    first = open_key(tmp_path / "keys", "development", TIME)
    assert first.info.development
    assert open_key(tmp_path / "keys", "development", TIME).public.fingerprint == first.public.fingerprint
    assert (tmp_path / "keys/development.pem").stat().st_mode & 0o077 == 0
    assert "*.pem" in (tmp_path / "keys/.gitignore").read_text()


def test_openssl_checks_what_we_sign_and_a_key_of_openssl_signs(tmp_path: Path) -> None:
    command = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(tmp_path / "own.pem")]
    subprocess.run(command, check=True, capture_output=True)
    key = open_key(tmp_path, "own", TIME)
    assert not key.info.development
    (tmp_path / "data").write_bytes(b"data")
    (tmp_path / "sig").write_bytes(key.sign(b"data"))
    (tmp_path / "own.pub").write_bytes(key.public.pem)
    done = subprocess.run(
        ["openssl", "dgst", "-sha256", "-verify", "own.pub", "-signature", "sig", "data"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Verified OK" in done.stdout
    assert not key.public.accepts(key.sign(b"data"), b"other")
    assert not key.public.accepts(b"", b"data")


def test_a_key_that_is_missing_expired_encrypted_or_of_another_kind_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SigningKeyError, match="make one with `openssl ecparam"):
        open_key(tmp_path, "nobody", TIME)
    with pytest.raises(SigningKeyError, match="names no key"):
        open_key(tmp_path, "../x", TIME)
    make_key(tmp_path, "short", expires=stamp(TIME))
    open_key(tmp_path, "short", TIME - timedelta(seconds=1))
    with pytest.raises(SigningKeyError, match="expired at 2026-03-03"):
        open_key(tmp_path, "short", TIME)
    with pytest.raises(SigningKeyError, match="never overwritten"):
        make_key(tmp_path, "short")
    make_key(tmp_path, "other")
    (tmp_path / "other.json").write_bytes((tmp_path / "short.json").read_bytes())
    with pytest.raises(SigningKeyError, match="restore the pair"):
        open_key(tmp_path, "other", TIME)
    (tmp_path / "text.pem").write_text("no key")
    with pytest.raises(SigningKeyError, match="no unencrypted private key"):
        open_key(tmp_path, "text", TIME)
    for name, command in {
        "rsa": ["openssl", "genrsa", "-out", "rsa.pem", "2048"],
        "odd": ["openssl", "ecparam", "-name", "secp256k1", "-genkey", "-noout", "-out", "odd.pem"],
    }.items():
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        with pytest.raises(SigningKeyError, match="of another kind than secp256r1"):
            open_key(tmp_path, name, TIME)
    with pytest.raises(SigningKeyError, match="cannot be read"):
        read_public(tmp_path / "nothing.pub")
    with pytest.raises(SigningKeyError, match=r"give the signer's \.pub file"):
        read_public(tmp_path / "short.pem")


def test_times_are_utc_and_in_order_as_text() -> None:
    assert stamp(parse_time("2026-03-03")) == "2026-03-03T00:00:00.000000Z"
    assert stamp(parse_time("2026-03-03T12:00:00+02:00")) == "2026-03-03T10:00:00.000000Z"
    assert parse_time(stamp(TIME)) == TIME
    for text in ("3 March", "2026-03-03T12:00:00", ""):
        with pytest.raises(LineageError):
            parse_time(text)
