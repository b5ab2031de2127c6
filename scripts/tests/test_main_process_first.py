"""main_process_first: who waits for whom, with real ranks over real shared and separate mounts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from testing_utils import execute_subprocess_async

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/main_process_first.py"
PATH = SCRIPTS / TOOL

Ranks = list[subprocess.Popen[str]]


@pytest.fixture(scope="module")
def first(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def start_ranks(unique_port: int) -> Iterator[Callable[..., Ranks]]:
    """Starts ranks, each by a command of its own, and ends what a failed test has left."""
    started: Ranks = []

    def start(commands: list[list[str]], local: int, **environ: str) -> Ranks:
        for rank, command in enumerate(commands):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank % local)}
            own |= {"WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1"}
            own |= {"MASTER_PORT": str(unique_port), "OMP_NUM_THREADS": "1"}
            started.append(
                subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **own, **environ},
                )
            )
        return started

    yield start
    for rank in started:
        if rank.poll() is None:
            rank.kill()
        rank.communicate()


def finish(ranks: Ranks, seconds: float = 90) -> list[tuple[int, str, str]]:
    """Exit status, stdout and stderr of each rank."""
    deadline = time.monotonic() + seconds
    outputs = [rank.communicate(timeout=max(deadline - time.monotonic(), 1)) for rank in ranks]
    return [(rank.returncode, *output) for rank, output in zip(ranks, outputs, strict=True)]


def write_script(folder: Path, text: str) -> list[str]:
    """The command of a small program that uses the module."""
    script = folder / "program.py"
    head = f"import os, sys, time\nsys.path.insert(0, {str(PATH.parent)!r})\n"
    script.write_text(
        head + "import main_process_first as first\nrank = os.environ.get('RANK')\n" + text
    )
    return [sys.executable, str(script)]


def find_verdicts(rows: list[dict[str, Any]], scope: str) -> list[tuple[int, int, str]]:
    """Rank, the rank it waited for, and what became of it."""
    return [(r["rank"], r["first_rank"], r["verdict"]) for r in rows if r["scope"] == scope]


# --- without ranks ---


def test_single_process_goes_straight_on(tmp_path: Path, torch_trap: dict[str, str]) -> None:
    """Without a launcher every context is a plain block, and nobody needs torch."""
    command = write_script(
        tmp_path,
        "with first.global_main_process_first(), first.local_main_process_first():\n"
        "    with first.main_process_by_path_first(sys.argv[1]):\n"
        "        print(first.is_global_main_process(), first.is_local_main_process(),\n"
        "              first.is_main_process_by_path(sys.argv[1]))\n",
    )
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "SLURM_PROCID")
    clean = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [*command, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**clean, **torch_trap},
    )
    assert done.stdout == "True True True\n", done.stderr


def test_error_in_a_single_process_is_its_own(first: Any, tmp_path: Path) -> None:
    """An error in the block is the one that comes out of it."""
    with pytest.raises(ZeroDivisionError), first.go_in_turn(None, "global", 0, None):
        raise ZeroDivisionError


def test_folder_of_a_path(first: Any, tmp_path: Path) -> None:
    """A file that is not there yet stands for its folder; a folder that is not there is refused."""
    folder = first.look_at_folder(tmp_path)
    assert first.look_at_folder(tmp_path / "new.arrow") == folder
    assert folder.here != first.look_at_folder(tmp_path.parent).here
    with pytest.raises(FileNotFoundError, match="make it first"):
        first.look_at_folder(tmp_path / "none" / "new.arrow")


def test_deepest_mount_counts(first: Any, tmp_path: Path) -> None:
    """The mount that a path lies on is the deepest of those above it, with blanks in its name."""
    table = tmp_path / "mountinfo"
    table.write_text(
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "22 21 0:5 / /data rw - nfs4 server:/export rw\n"
        "23 22 0:6 / /data/my\\040set rw - tmpfs tmpfs rw\n"
    )
    assert first.find_mount(Path("/data/x"), table) == ("nfs4", "server:/export")
    assert first.find_mount(Path("/data/my set/x"), table) == ("tmpfs", "tmpfs")
    assert first.find_mount(Path("/database"), table) == ("ext4", "/dev/sda1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--path", "/no/such/folder"], "--path: there is no folder /no/such/folder"),
        (["--group", "--ranks", "1"], "--group needs more than one rank"),
    ],
)
def test_wrong_use_is_told(call_tool: Callable[..., Any], arguments: list[str], words: str) -> None:
    """What makes no sense ends with status 2 before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


# --- with ranks ---

HOLD = 'hostname "$0" && mount -t tmpfs none "$1" && echo ready && exec sleep 600'


@pytest.fixture
def two_nodes(
    tmp_path: Path, can_mount: None, can_unshare: None
) -> Iterator[tuple[Path, Callable[[int, list[str]], list[str]]]]:
    """Two nodes: host names and mounts of their own. `shared` is one tmpfs for both of them,
    `local` is another tmpfs on each. The second gives a command that runs on a node."""
    for name in ("shared", "local"):
        (tmp_path / name).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "shared"], check=True, timeout=10)
    holders: Ranks = []
    try:
        for node in range(2):
            hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--uts"]
            hold += ["--propagation", "private", "bash", "-c", HOLD, f"node{node}"]
            hold.append(str(tmp_path / "local"))
            holders.append(subprocess.Popen(hold, stdout=subprocess.PIPE, text=True))
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"

        def enter(node: int, command: list[str]) -> list[str]:
            return ["nsenter", f"--target={holders[node].pid}", "--mount", "--uts", *command]

        yield tmp_path, enter
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()
        subprocess.run(["umount", tmp_path / "shared"], check=True, timeout=10)


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("where", ["shared", "local"])
def test_ranks_that_see_the_same_files_wait_for_one(
    two_nodes: tuple[Path, Callable[[int, list[str]], list[str]]],
    start_ranks: Callable[..., Ranks],
    read_json: Callable[[Path], Any],
    where: str,
) -> None:
    """2 nodes of 2 ranks. On the shared mount all wait for rank 0 and none works twice; on the
    separate ones ranks 0 and 2 work, each for its own node. Nothing is left in either."""
    folder, enter = two_nodes
    out = folder / "out.json"
    command = [sys.executable, str(PATH), "--path", str(folder / where), "--work", "0.5s"]
    commands = [enter(rank // 2, [*command, "--json", str(out)]) for rank in range(4)]
    done = finish(start_ranks(commands, 2))
    assert [status for status, _, _ in done] == [0] * 4, done
    document = read_json(out)
    rows = document["results"]
    assert document["details"]["file_system"] == "tmpfs"
    assert [row["node"] for row in rows if row["scope"] == "path"] == [0, 0, 1, 1]
    first_of = [0, 0, 0, 0] if where == "shared" else [0, 0, 2, 2]
    assert find_verdicts(rows, "path") == [
        (rank, first, "first" if rank == first else "found it")
        for rank, first in enumerate(first_of)
    ]
    # Global on mounts that are not shared: the others of node 1 find nothing.
    again = [rank for rank, _, verdict in find_verdicts(rows, "global") if "again" in verdict]
    assert (again == []) is (where == "shared")
    assert [first for _, first, _ in find_verdicts(rows, "local")] == [0, 0, 2, 2]
    assert "node0" not in out.read_text()
    for node in range(2):
        listing = enter(node, ["ls", "-A", str(folder / where)])
        assert subprocess.run(listing, capture_output=True, timeout=10, check=True).stdout == b""


@pytest.mark.nightly
@pytest.mark.torch
def test_files_that_can_only_be_read_are_still_found(
    two_nodes: tuple[Path, Callable[[int, list[str]], list[str]]],
    start_ranks: Callable[..., Ranks],
) -> None:
    """A node that has the shared mount read-only sees the file of rank 0 all the same."""
    folder, enter = two_nodes
    shared = str(folder / "shared")
    read_only = enter(1, ["mount", "-o", "bind,remount,ro", shared])
    bind = enter(1, ["mount", "--bind", shared, shared])
    for command in (bind, read_only):
        subprocess.run(command, check=True, timeout=10)
    program = write_script(
        folder, f"print(first.is_main_process_by_path({shared!r}), flush=True)\n"
    )
    ranks = start_ranks([enter(0, program), enter(1, program)], 1)
    done = finish(ranks)
    assert [output for _, output, _ in done] == ["True\n", "False\n"], done


@pytest.mark.nightly
@pytest.mark.torch
def test_first_that_dies_frees_its_node(
    two_nodes: tuple[Path, Callable[[int, list[str]], list[str]]],
    start_ranks: Callable[..., Ranks],
) -> None:
    """The first process of node 1 is killed in the middle of its work: the other one of that node
    hears of it in seconds, and node 0 goes on."""
    folder, enter = two_nodes
    program = write_script(
        folder,
        "import signal\n"
        "try:\n"
        "    with first.local_main_process_first():\n"
        "        if rank == '2':\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "    print('went on')\n"
        "except first.FirstProcessFailed as error:\n"
        "    print(error)\n",
    )
    done = finish(start_ranks([enter(rank // 2, program) for rank in range(4)], 2))
    assert [done[0][1], done[1][1]] == ["went on\n", "went on\n"], done
    assert done[2][0] == -signal.SIGKILL
    assert "the local first process, rank 2, (process " in done[3][1]
    assert "on node1) is gone" in done[3][1]


@pytest.mark.torch
def test_error_is_raised_everywhere(start_ranks: Callable[..., Ranks], tmp_path: Path) -> None:
    """An error in the first process comes out of it, and with its words out of the others, within
    seconds; the ranks can use the contexts again afterwards."""
    program = write_script(
        tmp_path,
        "for context in (first.global_main_process_first, first.local_main_process_first,\n"
        "                lambda: first.main_process_by_path_first(os.path.dirname(__file__))):\n"
        "    try:\n"
        "        with context():\n"
        "            if rank == '0':\n"
        "                raise KeyError('no such split')\n"
        "        print('went on')\n"
        "    except KeyError as error:\n"
        "        print('own', error)\n"
        "    except first.FirstProcessFailed as error:\n"
        "        print(error)\n"
        "with first.global_main_process_first():\n"
        "    print('again')\n",
    )
    done = finish(start_ranks([program] * 3, 3))
    assert done[0][1].splitlines() == ["own 'no such split'"] * 3 + ["again"], done
    for _, output, _ in done[1:]:
        words = [
            f"the {scope} first process, rank 0, raised KeyError: 'no such split'"
            for scope in ("global", "local", "path")
        ]
        assert output.splitlines() == [*words, "again"]


@pytest.mark.nightly
@pytest.mark.torch
def test_folder_missing_on_one_rank_is_told_to_all(
    start_ranks: Callable[..., Ranks], tmp_path: Path
) -> None:
    """One rank that has no such folder: all ranks raise, and say which one it is."""
    program = write_script(
        tmp_path,
        f"path = {str(tmp_path)!r} if rank == '0' else {str(tmp_path / 'none' / 'none')!r}\n"
        "try:\n"
        "    first.is_main_process_by_path(path)\n"
        "except FileNotFoundError as error:\n"
        "    print(error)\n",
    )
    done = finish(start_ranks([program] * 2, 2))
    assert all("rank 1 on" in output and "make it first" in output for _, output, _ in done), done


@pytest.mark.nightly
@pytest.mark.torch
def test_what_would_never_end_is_refused(start_ranks: Callable[..., Ranks], tmp_path: Path) -> None:
    """To ask all ranks about a path while some of them wait for this one is an error, not a hang;
    a path that was asked about before may be used."""
    program = write_script(
        tmp_path,
        f"folder = {str(tmp_path)!r}\n"
        "first.is_main_process_by_path(folder)\n"
        "with first.global_main_process_first():\n"
        "    with first.main_process_by_path_first(folder):\n"
        "        pass\n"
        "try:\n"
        "    with first.global_main_process_first():\n"
        "        first.is_main_process_by_path('/')\n"
        "except (RuntimeError, first.FirstProcessFailed) as error:\n"
        "    print(error)\n",
    )
    done = finish(start_ranks([program] * 2, 2))
    assert "ask before the global context" in done[0][1], done
    assert "raised RuntimeError" in done[1][1]


@pytest.mark.nightly
@pytest.mark.torch
def test_node_is_not_asked_about_in_a_block(
    start_ranks: Callable[..., Ranks], tmp_path: Path
) -> None:
    """Without LOCAL_RANK all ranks have to be asked who is on a node: within a context, where some
    wait for this one, that is an error and not a hang; before it, it works."""
    program = write_script(
        tmp_path,
        "import torch.distributed\n"
        "del os.environ['LOCAL_RANK']\n"
        "torch.distributed.init_process_group('gloo')\n"
        "try:\n"
        "    with first.global_main_process_first():\n"
        "        first.is_local_main_process()\n"
        "except (RuntimeError, first.FirstProcessFailed) as error:\n"
        "    print(error)\n"
        "print(first.is_local_main_process())\n"
        "with first.global_main_process_first():\n"
        "    first.is_local_main_process()\n"
        "torch.distributed.destroy_process_group()\n",
    )
    done = finish(start_ranks([program] * 2, 2))
    assert done[0][1].endswith("ask before the global context, not inside of it\nTrue\n"), done
    assert "raised RuntimeError: no launcher has set LOCAL_RANK" in done[1][1]
    assert done[1][1].endswith("\nFalse\n")
    assert [status for status, _, _ in done] == [0, 0]


@pytest.mark.nightly
@pytest.mark.torch
def test_store_outlives_its_host(start_ranks: Callable[..., Ranks], tmp_path: Path) -> None:
    """Rank 0, which hosts the store, has nothing to prepare and is done: it stays for as long as
    the first of another node prepares, and no longer than a moment after that."""
    program = write_script(
        tmp_path,
        "first.GOODBYE_SECONDS = 3.5\n"
        "mark = os.path.join(os.path.dirname(__file__), 'began')\n"
        "with first.local_main_process_first():\n"
        "    if rank == '1':\n"
        "        open(mark, 'w').close()\n"
        "        time.sleep(9)\n"
        "while rank == '0' and not os.path.exists(mark):\n"
        "    time.sleep(0.05)\n"
        "print('done')\n"
        "if rank == '2':\n"
        "    os._exit(0)  # without a word\n",
    )
    nodes = [["env", "GROUP_RANK=0"], *[["env", "GROUP_RANK=1", f"LOCAL_RANK={n}"] for n in (0, 1)]]
    done = finish(start_ranks([[*node, *program] for node in nodes], 1))
    assert [(status, output) for status, output, _ in done] == [(0, "done\n")] * 3, done


def test_number_of_another_process_is_no_sign_of_life(first: Any) -> None:
    """A first process that is gone, whose number another process has now, is gone: all that is
    looked at is in a store of this process alone."""
    notes = {"who": {"pid": os.getpid(), "host": "h", "space": first.read_pid_space()}}
    board = SimpleNamespace(read=lambda key: notes[key.rpartition("/")[2]])
    notes["who"]["started"] = first.read_process_start(os.getpid())
    assert first.find_trouble(board, "x", 0, time.monotonic())[0] is None
    notes["who"]["started"] = "1"
    trouble, _, _ = first.find_trouble(board, "x", 0, time.monotonic())
    assert trouble == f"(process {os.getpid()} on h) is gone"


def test_no_time_is_a_time_limit(first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """timeout=0 looks once and waits for nobody, unlike None."""
    monkeypatch.setattr(first, "MEETING_SECONDS", 1.0)
    board = SimpleNamespace(rank=1, size=2, longest_pause=0.05, count=lambda *_: 1)
    board.read = lambda _key: None
    with pytest.raises(first.FirstProcessFailed, match="waited 0 s for all ranks"):
        first.wait_for_count(board, "x", 1, 0)


@pytest.mark.nightly
@pytest.mark.torch
def test_time_limit_is_kept(start_ranks: Callable[..., Ranks], tmp_path: Path) -> None:
    """With a time limit a rank waits so long and no longer."""
    program = write_script(
        tmp_path,
        "try:\n"
        "    with first.global_main_process_first(timeout=1.0):\n"
        "        time.sleep(4 if rank == '0' else 0)\n"
        "    print('done')\n"
        "except first.FirstProcessFailed as error:\n"
        "    print(error)\n",
    )
    done = finish(start_ranks([program] * 2, 2))
    assert done[0][1] == "done\n", done
    assert done[1][1] == "the global first process, rank 0, was not done within 1 s\n"


@pytest.mark.torch
@pytest.mark.parametrize("has_group", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_inside_torchrun(tmp_path: Path, unique_port: int, has_group: bool) -> None:
    """Under torchrun, with a process group and without, one rank prepares and all find it; a group
    can still be made afterwards."""
    group = "torch.distributed.init_process_group('gloo')\n"
    program = write_script(
        tmp_path,
        "import torch, torch.distributed\n"
        + (group if has_group else "")
        + f"folder = {str(tmp_path)!r}\n"
        "for context in (first.global_main_process_first(), first.local_main_process_first(),\n"
        "                first.main_process_by_path_first(folder)):\n"
        "    with context:\n"
        "        with open(os.path.join(folder, 'log'), 'a') as log:\n"
        "            log.write(rank)\n"
        + ("" if has_group else group)
        + "total = torch.tensor([1.0])\n"
        "torch.distributed.all_reduce(total)\n"
        "torch.distributed.destroy_process_group()\n"
        "assert total.item() == 3\n",
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "3"]
    command += ["--master_port", str(unique_port), program[1]]
    execute_subprocess_async(command, timeout=120, quiet=True)
    log = (tmp_path / "log").read_text()
    assert len(log) == 9
    # In each context rank 0 wrote before any other: of n-th entries, its own is the first.
    for turn in range(3):
        places = {rank: [i for i, c in enumerate(log) if c == rank][turn] for rank in "012"}
        assert places["0"] == min(places.values())


@pytest.mark.nightly
@pytest.mark.torch
def test_rehearsal_is_heard(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """--rehearse with a process group: the first raises, the others hear of it, nothing hangs."""
    out = tmp_path / "out.json"
    arguments = ["--ranks", "3", "--rehearse", "--group", "--work", "0.2s", "--path", str(tmp_path)]
    done = run_tool(TOOL, *arguments, "--json", str(out), timeout=90)
    assert done.returncode == 0, done.stderr
    verdicts = [row["verdict"] for row in read_json(out)["results"]]
    assert verdicts == ["raised", "heard", "heard"] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.nightly
def test_machines_of_one_name_are_two(
    two_nodes: tuple[Path, Callable[[int, list[str]], list[str]]],
) -> None:
    """A machine is told from another by its boot, not by its host name, which may be the same;
    processes of one machine are together, whatever their containers are called."""
    folder, enter = two_nodes
    program = write_script(folder, "print(first.read_pid_space())\n")

    def ask() -> list[str]:
        texts = []
        for node in range(2):
            done = subprocess.run(
                enter(node, program), capture_output=True, text=True, timeout=60, check=True
            )
            texts.append(done.stdout)
        return texts

    first, second = ask()
    assert first == second
    (folder / "boot").write_text("another boot\n")
    bind = ["mount", "--bind", str(folder / "boot"), "/proc/sys/kernel/random/boot_id"]
    subprocess.run(enter(1, bind), check=True, timeout=10)
    first, second = ask()
    assert first != second
