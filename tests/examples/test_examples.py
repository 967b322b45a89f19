"""Every example runs as its first line says, in a process of its own."""

import os
import re
import subprocess
import sys
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from chromium import started_chromium

from seq2edge import Translator
from seq2edge.web.server import SiteHandler

EXAMPLES = Path(__file__).parents[2] / "examples"
WAIT = 120  # seconds, to load the model in a browser on a busy machine
LINES = ["Good morning.", "The old man sees a red house.", ""]


def run(name: str, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    paths = [path for path in sys.path if path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(threads=1)


def test_every_example_is_listed() -> None:
    listed = set(re.findall(r"^\| \[([^\]]+)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    found = {path.name + "/" * path.is_dir() for path in EXAMPLES.iterdir() if path.suffix != ".md"}
    assert listed == {name for name in found if not name.startswith((".", "_"))}


def test_a_file_is_translated(tmp_path: Path, translator: Translator) -> None:
    source, target = tmp_path / "english.txt", tmp_path / "portuguese.tsv"
    source.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    done = run("batch_file.py", source, target, folder=tmp_path)
    assert [line.split("\t")[0] for line in target.read_text(encoding="utf-8").splitlines()] == translator(LINES)
    assert done.stdout.startswith("3 lines, ")


def test_a_translation_is_streamed(tmp_path: Path, translator: Translator) -> None:
    done = run("streaming.py", "Good morning. Where is the station?", folder=tmp_path)
    assert done.stdout == translator("Good morning. Where is the station?") + "\n"
    assert done.stderr.startswith("log-probability -")


@pytest.mark.examples  # trains and exports
def test_a_module_of_ones_own_becomes_a_bundle(tmp_path: Path) -> None:
    done = run("nn_transformer.py", tmp_path / "numbers", folder=tmp_path)
    assert done.stdout.splitlines()[-1] == "três um quatro um cinco"
    translated = Translator(tmp_path / "numbers", threads=1)(["ten", "two two nine six"])
    assert translated == ["dez", "dois dois nove seis"]


@pytest.mark.examples
def test_a_route_translates(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from fastapi_route import app

    with testclient.TestClient(app) as client:
        answer = client.post("/translate", json={"texts": LINES, "num_beams": 1})
        assert answer.json()["translations"] == translator(LINES, num_beams=1)
        assert client.post("/translate", json={"texts": LINES, "num_beams": 9}).status_code == 422
    with pytest.raises(Exception, match="closed"):
        app.state.translator(LINES)


@pytest.mark.examples
@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_a_column_of_a_cluster_is_translated(tmp_path: Path, translator: Translator, engine: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip({"ray": "ray.data", "spark": "pyspark"}[engine])
    import pyarrow

    texts = [f"The old man sees {number} houses." for number in range(20)]
    parquet.write_table(pyarrow.table({"text": texts, "number": list(range(20))}), tmp_path / "english.parquet")
    run(f"{engine}_pipeline.py", tmp_path / "english.parquet", tmp_path / "translated", folder=tmp_path)
    rows = parquet.read_table(tmp_path / "translated").sort_by("number").to_pydict()
    assert rows["text"] == texts
    assert rows["translation"] == translator(texts, num_beams=1)


@pytest.mark.examples
def test_a_page_of_ones_own_translates_in_the_browser(tmp_path: Path, translator: Translator) -> None:
    ui = pytest.importorskip("selenium.webdriver.support.ui")
    run("browser_page/make.py", tmp_path / "site", folder=tmp_path)
    handler = partial(SiteHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, started_chromium(tmp_path / "profile") as browser:
        Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://localhost:{server.server_port}/own.html")
        wait, go = ui.WebDriverWait(browser, WAIT), browser.find_element("id", "go")
        wait.until(lambda _: go.is_enabled())
        text = browser.find_element("id", "text").get_attribute("value")
        go.click()
        wait.until(lambda _: go.is_enabled() and browser.find_element("id", "translation").text)
        found = browser.find_element("id", "translation").text
        server.shutdown()
    assert found == translator(text)


@pytest.mark.examples
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit"
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    nbclient.NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("O velho" in text for text in texts)
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "://" not in report.replace("http://www.w3.org/2000/svg", "")
