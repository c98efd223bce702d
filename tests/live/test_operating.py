"""The files of docs/how_to/operate.md, read by the programs that they are for, if there are any."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from live.page_server import Server
from typer.testing import CliRunner

from benchmarks.live.processes import free_port
from influential_bandits.cli import app

TEXT = (Path(__file__).parents[2] / "docs" / "how_to" / "operate.md").read_text("utf-8")


def block(kind):
    """Return the first file of a kind on the page."""
    return re.search(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)[1]


@pytest.fixture
def served(monkeypatch):
    """What ``serve`` is asked for on the command line, without a service."""
    asked = []
    monkeypatch.setattr(
        "influential_bandits.live.serving.serve", lambda store, **rest: asked.append((store, rest))
    )
    return asked


def test_the_settings_are_those_that_serve_takes(tmp_path, served, monkeypatch):
    file = tmp_path / "service.toml"
    file.write_text(block("toml"))
    monkeypatch.setenv("INFLUENTIAL_BANDITS_PORT", "8001")  # the environment comes first
    arguments = ["serve", "--config", str(file), "--log-format", "text"]  # and before it, these
    assert CliRunner().invoke(app, arguments).exit_code == 0
    ((store, rest),) = served
    assert store == "/var/lib/influential-bandits/shop.db"
    assert (rest["port"], rest["log_format"], rest["workers"]) == (8001, "text", 1)
    assert rest["key_file"] == Path("/var/lib/influential-bandits/first-key")


def test_the_container_starts_with_what_it_sets(served, monkeypatch):
    text = block("dockerfile")
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    for setting in re.findall(r"(INFLUENTIAL_BANDITS_\w+=\S+)", text):
        monkeypatch.setenv(*setting.split("="))
    assert CliRunner().invoke(app, re.findall(r'"(.*?)"', entry)[1:]).exit_code == 0
    ((store, rest),) = served
    assert (store, rest["host"], rest["log_format"]) == ("/data/shop.db", "0.0.0.0", "json")
    for command in re.findall(r"influential-bandits ([a-z-]+)", text):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_the_container_is_healthy_while_the_service_lives(tmp_path):
    (code,) = re.findall(r'HEALTHCHECK CMD \["python", "-c", "(.*?)"\]', TEXT)
    server = Server(tmp_path / "shop.db")
    here = [sys.executable, "-c", code.replace("8000", str(server.port))]
    assert subprocess.run(here, check=False).returncode == 0
    server.close()
    gone = [sys.executable, "-c", code.replace("8000", str(free_port()))]
    assert subprocess.run(gone, check=False, stderr=subprocess.DEVNULL).returncode == 1


def test_the_unit_is_one_that_systemd_takes(tmp_path, served):
    text = block("ini")
    (command,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *arguments = shlex.split(command)
    file = tmp_path / "service.toml"
    file.write_text(block("toml"))
    arguments = [str(file) if a == "/etc/influential-bandits.toml" else a for a in arguments]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert len(served) == 1
    (seconds,) = re.findall(r"TimeoutStopSec=(\d+)", text)
    assert int(seconds) > 30  # in which a stop finishes what was accepted
    if shutil.which("systemd-analyze"):
        unit = tmp_path / "bandits.service"
        unit.write_text(text.replace(program, "/bin/true"))
        command = ["systemd-analyze", "verify", "--man=no", str(unit)]
        checked = subprocess.run(command, check=False, capture_output=True, text=True)
        assert "bandits.service" not in checked.stderr, checked.stderr


def test_nginx_passes_on_what_the_service_needs(tmp_path):
    text = block("nginx")
    assert text.count("{") == text.count("}")
    (seconds,) = re.findall(r"keepalive_timeout (\d+)s", text)
    assert int(seconds) < 75  # of --keep-alive: the proxy ends idle connections first
    headers = dict(re.findall(r"proxy_set_header (\S+) (\S+);", text))
    assert headers["Host"] == "$host"  # without it no form is our own
    assert headers["X-Forwarded-Proto"] == "$scheme"  # without it no cookie is Secure
    server = Server(tmp_path / "shop.db")
    sent = {"Origin": "https://bandits.example.org", "Host": "bandits.example.org"}
    sent |= {"X-Forwarded-Proto": "https", "X-Request-ID": "from nginx"[:4]}
    answer = requests.post(
        f"{server.address}/login", {"key": server.key, "next": "/"}, headers=sent,
        allow_redirects=False, timeout=20,
    )  # fmt: skip
    server.close()
    assert "Secure" in answer.headers["set-cookie"]
    assert answer.headers["x-request-id"] == "from"
    if shutil.which("nginx"):
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"]
        files = ["-keyout", str(tmp_path / "bandits.key"), "-out", str(tmp_path / "bandits.crt")]
        subprocess.run([*made, *files], check=True, capture_output=True)
        whole = f"pid {tmp_path}/pid; events {{}} http {{ {text} }}"
        (tmp_path / "nginx.conf").write_text(whole.replace("/etc/ssl", str(tmp_path)))
        command = ["nginx", "-t", "-c", str(tmp_path / "nginx.conf")]
        subprocess.run(command, check=True, capture_output=True)


def test_alerts_and_the_table_name_metrics_that_there_are(tmp_path):
    server = Server(tmp_path / "shop.db")
    server.create("shop", window_hours=1e-9)
    server.play("shop", ["ann"])
    text = requests.get(
        f"{server.address}/metrics", headers={"Authorization": f"Bearer {server.key}"}, timeout=20
    ).text
    server.close()
    known = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    named = set(re.findall(r"influential_bandits_[a-z_]+(?=[`\[{])", TEXT))
    assert {name.removesuffix("_bucket") for name in named} <= known
    ours = {name for name in known if not name.endswith("_created")}
    assert ours <= named | {name.removesuffix("_bucket") for name in named}
