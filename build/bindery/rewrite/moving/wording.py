"""Describe a planned move: in a line, or as a diff."""

from __future__ import annotations

from bindery.core.report import count_noun, format_diff
from bindery.rewrite.moving.plan import Plan


def describe_plan(plan: Plan, *, would: bool = False) -> str:
    """What moved and what changed."""
    verb = "would move" if would else "moved"
    (old, new), *others = plan.moves.pairs
    along = "".join(f", with {extra}" for extra, _ in others)
    links = sum(len(edits) for edits in plan.edits.values())
    parts = []
    if links:
        parts.append(f"{count_noun(links, 'link')} in {count_noun(len(plan.edits), 'file')}")
    parts += sorted(path for path in plan.texts if path not in plan.edits)
    lines = [f"{verb} {old} to {new}{along}: {', '.join(parts) or 'no other file changes'}"]
    for note in (*plan.notes, *plan.mentions):
        lines.append(f"{note.span.path}:{note.span.line}:{note.span.col}: {note.message}")
    return "\n".join(lines)


def format_plan(plan: Plan) -> str:
    """A unified diff of all changes, renames first."""
    renames = "".join(f"rename {old} => {new}\n" for old, new in plan.moves.pairs)
    return renames + "".join(
        format_diff(path, *pair, plan.moves.map(path)) for path, pair in sorted(plan.texts.items())
    )
