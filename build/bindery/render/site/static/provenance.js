/* The origins of a number, shown when it is hovered, focused or tapped.

   They are listed in the note below the table, which a page without scripts has as well. A table
   is one stop of the tab key; arrow keys go from number to number, Enter to the note, Escape
   closes. */

"use strict";

(() => {
  const MOST_ORIGINS = 4;
  const STEPS = {
    ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
    Home: [0, -Infinity], End: [0, Infinity],
  };

  let left = null; // the number from which a reader went to a note, and that note

  const findNumber = (target) =>
    target instanceof Element ? target.closest("[data-number]") : null;
  const findNote = (number) =>
    document.getElementById(number.closest("[data-note]").dataset.note);
  const findOrigin = (note, end) => document.getElementById(`${note.id}.${end}`);

  function copy(origin) {
    const item = document.createElement("li");
    item.append(...origin.cloneNode(true).childNodes);
    return item;
  }

  function describe(number, byKeyboard) {
    const note = findNote(number);
    const { number: kind, origins, formula } = number.dataset;
    const parts = [];
    const head = document.createElement("p");
    const name = document.createElement("b");
    const meaning = note.querySelector(`[data-class="${kind}"]`);
    name.textContent = meaning.previousElementSibling.textContent;
    head.append(name, `: ${meaning.textContent}`);
    parts.push(head);
    if (formula) {
      const line = document.createElement("p");
      line.append(...copy(findOrigin(note, `formula.${formula}`)).childNodes);
      parts.push(line);
    }
    const all = origins.split(" ");
    const list = document.createElement("ul");
    list.append(...all.slice(0, MOST_ORIGINS).map((origin) => copy(findOrigin(note, origin))));
    parts.push(list);
    const hints = [];
    if (all.length > MOST_ORIGINS) hints.push(say("and {n} more in the notes", { n: all.length - MOST_ORIGINS }));
    if (byKeyboard) hints.push(say("Enter opens the notes"));
    if (hints.length) {
      const hint = document.createElement("p");
      hint.className = "hint";
      hint.textContent = hints.join(" · ");
      parts.push(hint);
    }
    return parts;
  }

  const tip = makeTip("origin.tip", "origin-tip", describe);

  // --- the keyboard: one stop for each table ---

  const grids = new Map();

  for (const table of document.querySelectorAll("table[data-note]")) {
    const cells = [...table.querySelectorAll("[data-number]")];
    if (!cells.length) continue;
    for (const cell of cells) cell.tabIndex = -1;
    cells[0].tabIndex = 0;
    grids.set(table, cells[0]);
    // The numbers are the stop now: they bring what is outside into view.
    table.closest("[role=region]")?.removeAttribute("tabindex");
  }
  for (const number of document.querySelectorAll("span[data-number]")) {
    if (!number.closest("a")) number.tabIndex = 0;
  }

  function findNext(cell, [down, right]) {
    const row = cell.parentElement;
    const isNumber = (other) => other?.matches("[data-number]");
    if (!down) {
      const cells = [...row.cells].filter(isNumber);
      const position = cells.indexOf(cell);
      return cells[Math.max(0, Math.min(cells.length - 1, position + right))];
    }
    const rows = [...row.closest("table").rows];
    let position = rows.indexOf(row) + down;
    while (rows[position] && !isNumber(rows[position].cells[cell.cellIndex])) position += down;
    return rows[position]?.cells[cell.cellIndex];
  }

  function openNote(number) {
    const note = findNote(number);
    note.open = true;
    const origin = findOrigin(note, number.dataset.origins.split(" ")[0]);
    tip.hide();
    origin.focus();
    left = { number, note };
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (left?.note.contains(event.target)) left.number.focus();
      return;
    }
    const number = event.target;
    if (!(number instanceof Element) || !number.matches("[data-number]")) return;
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key === "Enter") {
      event.preventDefault();
      openNote(number);
    } else if (event.key in STEPS && number.matches("td")) {
      const next = findNext(number, STEPS[event.key]);
      if (next && next !== number) { // else the browser scrolls
        event.preventDefault();
        next.focus();
      }
    }
  });

  document.addEventListener("focusin", (event) => {
    const number = findNumber(event.target);
    if (number !== event.target) {
      if (!tip.box.contains(event.target)) tip.hide();
      return;
    }
    const table = number.closest("table");
    if (grids.has(table) && number.matches("td")) {
      grids.get(table).tabIndex = -1;
      number.tabIndex = 0;
      grids.set(table, number);
    }
    tip.show(number, number.matches(":focus-visible"));
  });
  document.addEventListener("focusout", tip.hideSoon);

  // --- the mouse and the finger ---

  // A page that scrolls under a mouse at rest puts numbers under it that nobody pointed at.
  let mouse = [];
  document.addEventListener("pointermove", (event) => {
    mouse = [event.clientX, event.clientY];
  }, { passive: true });
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    if (mouse[0] === event.clientX && mouse[1] === event.clientY) return;
    const number = findNumber(event.target);
    if (number) tip.showSoon(number);
    else if (!tip.box.contains(event.target)) tip.hideSoon();
  });
  document.documentElement.addEventListener("pointerleave", tip.hideSoon);
  document.addEventListener("click", (event) => {
    const number = findNumber(event.target);
    if (number && !event.target.closest("a")) tip.show(number);
    else if (!tip.box.contains(event.target)) tip.hide();
  });
})();
