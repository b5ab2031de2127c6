/* Tables that can be sorted by any column, narrowed down to some rows, and copied as CSV. */

"use strict";

(() => {
  const ROWS_TO_FILTER = 8;
  // What is done to a table that goes on beyond its box by more than this part of it.
  const STEPS = [["data-tight", 0], ["data-wide", 0.2]];
  const MINUS = /[\u2212\u2013](?=\d)/g;
  const NUMBER = /^[^\d.+-]{0,3}([+-]?(?:\d{1,3}(?:[,\u202f\u00a0 ]\d{3})+|\d+)(?:\.\d+)?|[+-]?\.\d+)(?:e([+-]?\d+))?/i;
  const PREFIXES = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, m: 1e-3, u: 1e-6, "µ": 1e-6, n: 1e-9 };
  const UNIT = /^\s*(Ki|Mi|Gi|Ti|Pi|[kKMGTPEmuµn])(?:B|b|FLOP|Hz|s|W|bps|Bps|IOPS)/;

  /* The text of a cell as its author wrote it, without marks of where a number comes from. */
  function readCell(cell) {
    const copy = cell.cloneNode(true);
    for (const added of copy.querySelectorAll(".note, script")) added.remove();
    return copy.textContent.replace(/\s+/g, " ").trim();
  }

  /* The same for a table outside of the book, where a link that is shown as a number leads nowhere. */
  function readForCopy(cell) {
    const copy = cell.cloneNode(true);
    for (const link of copy.querySelectorAll("a.web")) {
      if (/^\d+$/.test(link.textContent)) link.textContent = link.href;
    }
    return readCell(copy);
  }

  /* A number with its unit, so that 900 MB sorts before 1 GB; null for other texts. */
  function readNumber(text) {
    const plain = text.replace(MINUS, "-");
    const found = NUMBER.exec(plain);
    if (!found) return null;
    const value = Number(found[1].replace(/[,\u202f\u00a0 ]/g, "")) * 10 ** Number(found[2] ?? 0);
    const unit = UNIT.exec(plain.slice(found[0].length));
    if (!unit) return value;
    const binary = unit[1].endsWith("i");
    return value * (binary ? 1024 ** ("KMGTP".indexOf(unit[1][0]) + 1) : PREFIXES[unit[1]]);
  }

  function compare(a, b) {
    if (a.text === "" || b.text === "") return (a.text === "") - (b.text === "");
    if (a.number !== null && b.number !== null) return a.number - b.number;
    if (a.number !== null || b.number !== null) return (a.number === null) - (b.number === null);
    return a.text.localeCompare(b.text, undefined, { numeric: true, sensitivity: "base" });
  }

  function quote(text) {
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  /* The texts of a table row by row. A cell of several rows or columns fills all of them. */
  function readGrid(table) {
    const rows = [...table.rows];
    const grid = rows.map(() => []);
    rows.forEach((row, top) => {
      const section = [...row.parentElement.rows];
      const most = section.length - section.indexOf(row);
      let column = 0;
      for (const cell of row.cells) {
        while (grid[top][column] !== undefined) column += 1;
        const text = readForCopy(cell);
        const height = Math.min(cell.rowSpan || most, most);
        for (let y = top; y < top + height; y += 1) {
          for (let x = column; x < column + cell.colSpan; x += 1) grid[y][x] = text;
        }
      }
    });
    return grid;
  }

  function writeCsv(table) {
    return readGrid(table).filter((_, index) => !table.rows[index].hidden)
      .map((texts) => Array.from(texts, (text) => quote(text ?? "")).join(",")).join("\n");
  }

  /* Whether tables go on beyond their boxes, which their style shows, and what is done about it.
     All are read before one is changed: a change in between would have the browser lay out the
     page for each. */
  function markEdges(boxes) {
    for (const [step, least] of STEPS) {
      const over = boxes.filter((box) => box.scrollWidth > (1 + least) * box.clientWidth + 1);
      for (const box of over) box.toggleAttribute(step, true);
    }
    const read = boxes.map((box) => [box, box.scrollWidth, box.clientWidth, box.scrollLeft]);
    for (const [box, scrollWidth, clientWidth, scrollLeft] of read) {
      const beyond = scrollWidth - clientWidth - scrollLeft;
      box.toggleAttribute("data-scrolled", scrollLeft > 1);
      box.toggleAttribute("data-goes-on", beyond > 1);
      box.toggleAttribute("data-fits", scrollWidth <= clientWidth + 1);
    }
  }

  // Tables are fitted again where their width changes, as when a phone is turned.
  const rooms = new WeakMap();
  const sizes = new ResizeObserver((entries) => {
    const boxes = [...new Set(entries.map(({ target }) => target.closest(".table")))];
    const changed = boxes.map((box) => [box, box.clientWidth]).filter(([box, room]) => rooms.get(box) !== room);
    for (const [box, room] of changed) {
      rooms.set(box, room);
      for (const [step] of STEPS) box.removeAttribute(step);
    }
    markEdges(boxes);
  });
  document.addEventListener("scroll", ({ target }) => {
    if (target instanceof Element && target.matches(".table")) markEdges([target]);
  }, { capture: true, passive: true });
  window.watchEdges = (box) => {
    sizes.observe(box);
    sizes.observe(box.firstElementChild);
  };

  const isPlain = (table) =>
    table.tHead?.rows.length === 1 && table.tBodies.length === 1 &&
    [...table.rows].every((row) => row.cells.length === table.tHead.rows[0].cells.length) &&
    !table.querySelector("[colspan], [rowspan]");

  function makeSortable(table) {
    const body = table.tBodies[0];
    const first = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!readCell(head) || head.querySelector("a, button")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const state = head.getAttribute("aria-sort");
        const next = state === "ascending" ? "descending" : state === "descending" ? null : "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        let rows = first;
        if (next) {
          head.setAttribute("aria-sort", next);
          const keyed = first.map((row) => {
            const text = readCell(row.cells[column]);
            return { row, text, number: readNumber(text) };
          });
          const sign = next === "ascending" ? 1 : -1;
          // What is empty, or no number among numbers, stays last either way.
          const counts = keyed.some(({ number }) => number !== null);
          const isKnown = ({ text, number }) => text !== "" && (!counts || number !== null);
          keyed.sort((a, b) => (isKnown(a) && isKnown(b) ? sign : 1) * compare(a, b));
          rows = keyed.map(({ row }) => row);
        }
        body.append(...rows);
      });
    });
  }

  function makeFilter(table, count) {
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = say("Filter rows");
    field.setAttribute("aria-label", say("Filter the rows of this table"));
    const rows = [...table.tBodies[0].rows];
    let texts = null;
    field.addEventListener("input", () => {
      texts ??= rows.map((row) => [...row.cells].map(readCell).join(" ").toLowerCase());
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        left += !row.hidden;
      });
      count.textContent = words.length ? say("{n} of {all} rows", { n: left, all: rows.length }) : "";
    });
    return field;
  }

  /* One stop of the tab key for all tools of a table: arrow keys go from one to the next. */
  function shareStop(controls) {
    controls.forEach((control, index) => {
      control.tabIndex = index ? -1 : 0;
      control.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        const next = controls[index + step];
        const inText = control.matches("input")
          && control.selectionEnd !== (step > 0 ? control.value.length : 0);
        if (!next || inText) return;
        event.preventDefault();
        control.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      });
    });
  }

  for (const box of document.querySelectorAll("article .table")) window.watchEdges(box);
  for (const table of document.querySelectorAll("article .table > table")) {
    const tools = document.createElement("div");
    tools.className = "table-tools";
    if (isPlain(table)) {
      makeSortable(table);
      if (table.tBodies[0].rows.length >= ROWS_TO_FILTER) {
        const count = document.createElement("span");
        count.setAttribute("role", "status");
        tools.append(makeFilter(table, count), count);
      }
    }
    tools.append(window.makeCopyButton(say("Copy as CSV"), () => writeCsv(table)));
    shareStop([...tools.querySelectorAll("input, button"), ...table.querySelectorAll("button.sort")]);
    table.parentElement.before(tools);
  }
})();
