#!/usr/bin/env bash
# `trainwright launch` from a checkout in which nothing is installed:
#
#   apps/login/train.sh [launch options] [run-recipe's words] [KEY=VALUE ...]
#
# With an active virtual environment it uses the trainwright of that one. Without, it makes an environment of its own, once:
# the launcher and its preflight, never the training stack. docs/launch.md says more.
set -euo pipefail

say() {
    printf 'train.sh: %s\n' "$*" >&2
}

refuse() {
    say "$@"
    exit 2
}

if [ -n "${VIRTUAL_ENV:-}" ]; then
    program=$VIRTUAL_ENV/bin/trainwright
    [ -x "$program" ] || refuse "the active environment $VIRTUAL_ENV has no trainwright command:" \
        "pip install 'trainwright[preflight]' into it, or deactivate it"
    exec "$program" launch "$@"
fi

# Through a symbolic link too.
checkout=$(realpath -- "${BASH_SOURCE[0]}")
checkout=${checkout%/apps/login/train.sh}

# The members are installed in place, so an edit acts at once. What asks for another environment: another checkout, other
# dependencies, another Python.
key=$({
    printf '%s\n' "$checkout"
    cat -- "$checkout"/{uv.lock,.python-version,pyproject.toml} "$checkout"/{apps/login,packages/*}/pyproject.toml
} | sha256sum)
# A relative path there means nothing, says the XDG specification.
case ${XDG_CACHE_HOME:-} in
    /*) cache=$XDG_CACHE_HOME/trainwright ;;
    *)
        [ -n "${HOME:-}" ] || refuse "HOME is not set, so there is no place for an environment: set it, or activate one"
        cache=$HOME/.cache/trainwright
        ;;
esac
environment=$cache/login-${key:0:16}
ready=$environment/ready

# Progress is for somebody who watches.
quiet=(--quiet)
[ ! -t 2 ] || quiet=()

is_ready() {
    [ -r "$ready" ] && [ "$(cat -- "$ready")" = "$("$environment/bin/python" -V 2>&1)" ]
}

# The newest dependencies that the members allow, as uv.lock is uv's.
install_with_pip() {
    local python found='' member
    for python in python3 python3.{12..15}; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            found=$python
            break
        fi
    done
    [ -n "$found" ] || refuse "Python 3.12 or newer is needed, or uv, which brings one: python3 -m pip install uv"
    "$found" -m venv "$environment" || return
    local members=()
    for member in launch metrics-audit recipes report-schema; do
        members+=(--editable "$checkout/packages/$member")
    done
    "$environment/bin/python" -m pip install "${quiet[@]}" --disable-pip-version-check --no-compile \
        "${members[@]}" --editable "$checkout/apps/login[preflight]"
}

install_with_uv() {
    # Bytecode is written for what is imported, and not for all that is there.
    UV_PROJECT_ENVIRONMENT=$environment uv sync --project "$checkout" --locked --package trainwright \
        --extra preflight --no-default-groups --no-compile-bytecode "${quiet[@]}"
}

install() {
    flock --nonblock 9 || {
        say "another start is making the environment; waiting for it"
        flock 9
    }
    if is_ready; then
        return
    fi
    say "making an environment for the launcher in $environment, once"
    # What an interrupted start has left.
    rm -rf -- "$environment"
    cd -- "$checkout"
    if uv --version >/dev/null 2>&1; then
        install_with_uv >&2
    else
        install_with_pip >&2
    fi || refuse "the environment could not be made; what went wrong stands above"
    # Last: who finds this file finds everything.
    "$environment/bin/python" -V > "$ready.new"
    mv -- "$ready.new" "$ready"
    say "the environment is ready"
}

if ! is_ready; then
    { mkdir -p -- "$cache" && [ -w "$cache" ]; } 2>/dev/null || refuse "$cache cannot be written:" \
        "set XDG_CACHE_HOME to a directory that can, or activate an environment that has trainwright"
    (install) 9> "$environment.lock"
fi
# Isolated from PYTHONPATH and the like, which stay in the environment for --env to forward.
exec "$environment/bin/python" -I -m trainwright_login.main launch "$@"
