"""Studies on a cluster whose parts are killed: what was finished stays, and no bit changes."""

import datetime as dt
import ipaddress
import os
import subprocess
import sys

import forked
import pyarrow.parquet as pq
import pytest
from cluster_processes import Cluster, environment, until
from command_line import run_command
from report_files import bits

import influential_bandits as ib
from influential_bandits.studies.compare.compare import compare
from influential_bandits.studies.runner.running import reproduce
from influential_bandits.studies.runner.study import choose_studies

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills processes by POSIX signals")

# Twelve pieces of a tenth of a second or so.
SETTINGS = {"seeds": 60, "max_horizon": 200_000}
OPTIONS = ("figure-1b", "--quick", "--seeds", "60", "--max-horizon", "200000")
PIECES = 12


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The same study, played on this computer without any disturbance."""
    out = tmp_path_factory.mktemp("here")
    reproduce(choose_studies(["figure-1b"]), out, "quick", **SETTINGS)
    return out


def command(*arguments, **variables):
    start = subprocess.Popen if variables else forked.Popen  # Dask reads them at import
    return start(
        [sys.executable, "-m", "influential_bandits.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )


def started(cluster, out):
    return command(
        "reproduce", *OPTIONS, "--engine", "dask", "--scheduler", cluster.file, "--out", out
    )


def finished(out):
    return {
        path.name: path.read_bytes()
        for path in (out / "figure-1b" / "pieces").glob("[!.]*.parquet")
    }


def same_bits(out, here):
    for name in ("figure-1b/data.parquet", *(f"figure-1b/pieces/{n}" for n in finished(here))):
        assert bits(out / name) == bits(here / name), name
    assert (out / "summary.json").read_bytes() == (here / "summary.json").read_bytes()


@pytest.mark.long
def test_a_scheduler_that_goes_away_keeps_what_is_finished_and_the_same_command_continues(
    tmp_path, here
):
    out = tmp_path / "out"
    with Cluster(tmp_path) as first:
        first.add_worker()
        process = started(first, out)
        until(lambda: len(finished(out)) >= 2, "two pieces")
        first.scheduler.kill()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.count("\n") == 1, err
    assert err.startswith("error: the scheduler at ")
    assert f"went away; finished pieces are kept in {out}: run the same command again" in err
    kept = finished(out)
    assert 2 <= len(kept) < PIECES
    assert not (out / "summary.json").exists()

    with Cluster(tmp_path) as second:  # another scheduler, another port, the same scheduler file
        second.add_worker()
        process = started(second, out)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert kept.items() <= finished(out).items()
    same_bits(out, here)


@pytest.mark.parametrize("seeds", [10**9, 10**18])
def test_more_seeds_than_memory_holds_are_refused_by_every_command(seeds, tmp_path, refused):
    with refused(ib.errors.InvalidInput, f"{seeds:,} runs", "GB"):
        compare(["LCB"], ["random-3"], [100], out=tmp_path / "out", n_instances=seeds)
    with refused(ib.errors.InvalidInput, f"{seeds:,} random instances", "GB"):
        reproduce(choose_studies(["figure-1b"]), tmp_path / "out", "tiny", seeds=seeds)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_study_goes_on_without_the_instances_of_a_piece_that_fails(tmp_path, monkeypatch):
    """Pieces of ten; those of a bad instance are left out, and said to be."""
    from influential_bandits.studies.paper import random_runs

    whole = random_runs.random_instance

    def one_is_bad(arms, seed):
        if seed == 13:
            raise ib.errors.NotCertified("no proof for this one")
        return whole(arms, seed)

    monkeypatch.setattr(random_runs, "random_instance", one_is_bad)
    study = choose_studies(["figure-1b"])
    with pytest.raises(ib.errors.Unfinished) as error:
        reproduce(study, tmp_path, "tiny")
    text = str(error.value)
    assert text.startswith("2 pieces failed")
    for policy in ("LCB", "InfluentialLCB"):
        assert f"figure-1b: {policy}-00010: NotCertified: no proof for this one" in text
    (section,) = error.value.results
    assert any("LCB-00010" in note for note in section.analysis.notes)
    assert "on 10 random instances" in section.analysis.figures[0].title
    rows = pq.read_table(tmp_path / "figure-1b" / "data.parquet")
    assert set(rows["instance"].to_pylist()) == set(range(10))
    assert (tmp_path / "report.html").exists()

    monkeypatch.setattr(random_runs, "random_instance", whole)
    before = finished(tmp_path)
    assert len(before) == 2
    reproduce(study, tmp_path, "tiny")
    assert before.items() <= finished(tmp_path).items()
    reproduce(study, tmp_path / "again", "tiny")
    one, other = (
        bits(folder / "figure-1b" / "data.parquet") for folder in (tmp_path, tmp_path / "again")
    )
    assert one == other


def compared(out, *options):
    """Play two families, one of which finds its instances one after the other, and one fades."""
    chosen = ("--policies", "LCB,InfluentialLCB", "--families", "easy,fading-0.9")
    status, _, err = run_command(
        "compare", *chosen, "--horizons", "30,100", "--instances", 12, "--out", out, *options
    )
    assert status == 0, err
    tables = [bits(out / family / "data.parquet") for family in ("easy", "fading-0.9")]
    return tables, (out / "summary.json").read_bytes()


@pytest.fixture(scope="module")
def compared_here(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("compared"), "--jobs", 1)


@pytest.mark.long
@pytest.mark.parametrize("options", [["--jobs", 2], ["--engine", "dask"]])
def test_compare_gives_the_same_bits_everywhere(options, tmp_path, compared_here):
    assert compared(tmp_path, *options) == compared_here


# --- TLS ---


def certificate(folder):
    """Write a certificate for this computer that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cluster")])
    now = dt.datetime.now(dt.UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(host, critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(signed.public_bytes(encoding))
    secret = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(secret)


@pytest.mark.long
def test_a_cluster_behind_tls_is_reached_with_certificates_and_not_without(tmp_path):
    certificate(tmp_path)
    tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(tmp_path / "cert.pem")}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = str(tmp_path / "cert.pem")
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = str(tmp_path / "key.pem")
    with Cluster(tmp_path, "tls", **tls) as cluster:
        cluster.add_worker()
        assert cluster.address.startswith("tls://127.0.0.1:")
        arguments = ("reproduce", "figure-1a", "--tiny", "--engine", "dask")
        where = ("--scheduler", cluster.address, "--out", tmp_path / "out")
        process = command(*arguments, *where, **tls)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        process = command(*arguments, *where)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 2
        assert err.startswith(f"error: {cluster.address} wants TLS")
        assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in err
        assert err.count("\n") == 1, err
