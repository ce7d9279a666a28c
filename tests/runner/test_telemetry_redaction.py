"""Secrets are hidden, and what is no secret stays readable."""

import pytest

from trainwright.runner.telemetry.redaction import REDACTED, redact, redact_text

HEX = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "DB_PASSWORD",
        "MYSQL_PWD", "PGPASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "SLURM_JWT", "GITHUB_PAT", "SSH_AUTH_SOCK",
        "GPG_PASSPHRASE", "SESSION_COOKIE", "MYTOKEN", "apiKey", "api-key", "hf_token", "Secret", "PRIVATE_KEY_PATH",
        "CUDA_TOKEN", "NCCL_SECRET",
    ],
)  # fmt: skip
def test_a_name_that_speaks_of_a_secret_hides_the_value(name):
    assert redact({name: "plain"}) == {name: REDACTED}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("tokenizer_type", "ByteLevelTokenizer"),
        ("GIT_AUTHOR_NAME", "Ada"),
        ("XAUTHORITY", "/home/ada/.Xauthority"),
        ("PATH", "/usr/bin:/bin"),
        ("PWD", "/home/ada"),
        ("OLDPWD", "/home/ada"),
        ("NCCL_SOCKET_IFNAME", "^lo,docker0"),
        ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"),
        ("SLURM_JOB_NODELIST", "gpu[01-08,11]"),
        ("SLURM_TASKS_PER_NODE", "8(x2)"),
        ("SLURM_SRUN_COMM_HOST", "10.0.0.1"),
        ("MASTER_ADDR", "fe80::1"),
        ("LS_COLORS", "*.tar=01;31:*.tgz=01;31"),
        ("CUDA_VISIBLE_DEVICES", "GPU-8a56a4bc-e184-a047-2620-be19fdf913d5"),
        ("GIT_REMOTE", "git@github.com:owner/name.git"),
        ("INDEX_URL", "https://index.example/simple/?format=json#fragment"),
        ("SCOPED", "https://host/path/@scope/name"),
        ("WORLD_SIZE", "8"),
        ("EMPTY_TOKEN", ""),
        ("MASK", "sk-short hf_short key"),
    ],
)
def test_what_is_no_secret_stays(name, value):
    assert redact({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://user:hunter2@host:8080/path", f"https://{REDACTED}@host:8080/path"),
        ("https://ghp_abc@github.com/x.git", f"https://{REDACTED}@github.com/x.git"),
        ("postgresql+psycopg://u:p%40ss@db/x?a=b", f"postgresql+psycopg://{REDACTED}@db/x?a=b"),
        ("a http://u:p@one b http://u:q@two", f"a http://{REDACTED}@one b http://{REDACTED}@two"),
        ("http://user:p@ss:word@host/", f"http://{REDACTED}@host/"),
        ("user:hunter2@proxy:3128", f"{REDACTED}@proxy:3128"),
        (f"use hf_{HEX} here", f"use {REDACTED} here"),
        (f"ghp_{HEX}", REDACTED),
        (f"github_pat_{HEX}", REDACTED),
        (f"nvapi-{HEX}", REDACTED),
        ("AKIAIOSFODNN7EXAMPLE", REDACTED),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", REDACTED),
        (f"Authorization: Bearer {HEX}", f"Authorization: Bearer {REDACTED}"),
        ("run --hf-token abc123 -n 2", f"run --hf-token {REDACTED} -n 2"),
        ("run --hf-token=abc123 -n 2", f"run --hf-token={REDACTED} -n 2"),
        ("run --token 'a b' -n 2", f"run --token {REDACTED} -n 2"),
        ("srun --export=ALL,HF_TOKEN=abc,X=1", f"srun --export=ALL,HF_TOKEN={REDACTED},X=1"),
        ("https://host/?access_token=abc&x=1", f"https://host/?access_token={REDACTED}&x=1"),
        ('{"api_key": "abc", "x": 1}', f'{{"api_key": {REDACTED}, "x": 1}}'),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", f"a\n{REDACTED}\nb"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", REDACTED),
    ],
)
def test_secrets_within_a_value_are_hidden_and_the_rest_stays(value, shown):
    assert redact({"VALUE": value}) == {"VALUE": shown}
    assert redact_text(value) == shown


def test_nested_settings_and_lists_of_words_are_searched():
    launch = {
        "argv": ["run-recipe", "--hf-token", "abc", "--token", "--flag", "x", "API_KEY=abc"],
        "env": {"HF_TOKEN": "abc", "NCCL_DEBUG": "INFO"},
        "credentials": {"user": "ada", "pin": 1234},
        "nodes": 2,
        "dry": False,
        "nothing": None,
    }
    assert redact(launch) == {
        "argv": ["run-recipe", "--hf-token", REDACTED, "--token", "--flag", "x", f"API_KEY={REDACTED}"],
        "env": {"HF_TOKEN": REDACTED, "NCCL_DEBUG": "INFO"},
        "credentials": REDACTED,
        "nodes": 2,
        "dry": False,
        "nothing": None,
    }


def test_the_settings_given_are_not_changed():
    given = {"HF_TOKEN": "abc", "inner": {"KEY": "abc"}}
    redact(given)
    assert given == {"HF_TOKEN": "abc", "inner": {"KEY": "abc"}}


def test_redacting_twice_changes_nothing_more():
    once = redact({"a": "https://u:p@h/", "b": "--token x", "c": "Bearer 0123456789", "HF_TOKEN": "x"})
    assert redact(once) == once


@pytest.mark.parametrize("piece", ["a", "-", ":", "a:", "key", "-token", "a@", " --key", "eyJ", ";a:b", "token =", "_"])
def test_a_value_of_hundreds_of_kilobytes_comes_through(piece):
    """A pattern that needs quadratic work would take minutes here."""
    huge = piece * (300_000 // len(piece))
    shown = redact_text(huge + " and https://u:hunter2@host/")
    assert "hunter2" not in shown and shown.endswith("@host/")
