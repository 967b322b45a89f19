"""Make a page of one's own that translates in the browser: python examples/browser_page/make.py site ."""

import shutil
import sys
from pathlib import Path

from seq2edge.bundle.bundle import DEFAULT_BUNDLE
from seq2edge.web.site import make_site

PAGE = Path(__file__).with_name("index.html")


def main(folder: Path) -> None:
    site = make_site((DEFAULT_BUNDLE,), folder, force=True)  # the runtime, onnxruntime-web and the bundle
    shutil.copyfile(PAGE, folder / "own.html")  # next to the page that comes with it
    print(f"{site.folder}: python -m http.server --directory {site.folder}, and open  http://localhost:8000/own.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
