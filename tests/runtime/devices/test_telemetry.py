"""onnxruntime's telemetry is off: no file appears and no name is looked up, unless the user asks for it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS = 20  # enough: with ORT_DISABLE_TELEMETRY=0, onnxruntime 1.31 looks up four names in this time
# Preloaded into a process, it notes every name that is looked up and every connection, and lets them fail.
OBSERVER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char *name) {
    int file = open(getenv("OBSERVED"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    dprintf(file, "%s\n", name ? name : "");
    close(file);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    note(name);
    return EAI_FAIL;
}

struct hostent *gethostbyname(const char *name) {
    note(name);
    h_errno = HOST_NOT_FOUND;
    return NULL;
}

int gethostbyname_r(
    const char *name, struct hostent *host, char *buffer, size_t size, struct hostent **found, int *error) {
    note(name);
    *found = NULL;
    *error = HOST_NOT_FOUND;
    return 0;
}

int connect(int descriptor, const struct sockaddr *address, socklen_t size) {
    int (*original)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return original(descriptor, address, size);
    note("connection");
    errno = ENETUNREACH;
    return -1;
}
"""
PROGRAM = "from seq2edge import Translator; Translator(threads=1).translate(['Hello.'])"


def files_written(home: Path, **environment: str) -> list[Path]:
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    variables = {**inherited, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), **environment}
    subprocess.run([sys.executable, "-B", "-c", PROGRAM], env=variables, check=True)
    return [path for path in home.rglob("*") if path.is_file()]


def test_a_translation_leaves_nothing_in_the_home_directory(tmp_path: Path) -> None:
    assert files_written(tmp_path) == []


def test_the_users_own_setting_is_kept(tmp_path: Path) -> None:
    code = "import os, seq2edge; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


@pytest.fixture(scope="module")
def observer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled observer, which is known to see a lookup."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("observing name lookups needs Linux and gcc")
    folder = tmp_path_factory.mktemp("observer")
    (folder / "observer.c").write_text(OBSERVER, encoding="utf-8")
    arguments = ["gcc", "-shared", "-fPIC", "-o", folder / "observer.so", folder / "observer.c", "-ldl"]
    subprocess.run(arguments, check=True)
    lookup = [sys.executable, "-c", "import socket; socket.getaddrinfo('example.org', 80)"]
    environment = {**os.environ, "LD_PRELOAD": str(folder / "observer.so"), "OBSERVED": str(folder / "seen")}
    subprocess.run(lookup, env=environment, capture_output=True, check=False)
    assert (folder / "seen").read_text(encoding="utf-8") == "example.org\n"
    return folder / "observer.so"


def lookups(observer: Path, folder: Path, *, seconds: float, **environment: str) -> list[str]:
    """Translate a line and keep the process for so long; return what it has looked up."""
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    homes = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "OBSERVED": str(folder / "seen")}
    variables = {**inherited, **homes, "LD_PRELOAD": str(observer), **environment}
    program = [sys.executable, "-m", "seq2edge", "translate", "--threads", "1"]
    with subprocess.Popen(program, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        running.stdin.write(b"Hello.\n")
        running.stdin.flush()
        assert running.stdout.readline().strip()
        time.sleep(seconds)
        running.stdin.close()
    assert running.returncode == 0
    seen = folder / "seen"
    return seen.read_text(encoding="utf-8").splitlines() if seen.exists() else []


def test_a_translation_looks_up_no_name(observer: Path, tmp_path: Path) -> None:
    assert lookups(observer, tmp_path, seconds=0) == []


@pytest.mark.slow
def test_a_long_process_looks_up_no_name(observer: Path, tmp_path: Path) -> None:
    assert lookups(observer, tmp_path, seconds=SECONDS) == []
