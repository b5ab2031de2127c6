/* Footnotes and terms of the glossary, explained beside the words they belong to. */

"use strict";

(() => {
  function readNote(mark) {
    const note = document.getElementById(decodeURIComponent(mark.hash.slice(1)));
    if (!note) return null;
    const copy = note.cloneNode(true);
    for (const back of copy.querySelectorAll("a.back")) back.remove();
    for (const named of copy.querySelectorAll("[id]")) named.removeAttribute("id");
    return copy.childNodes;
  }

  function readTerm(term) {
    const [line, way] = [document.createElement("p"), document.createElement("p")];
    const [name, link] = [document.createElement("b"), document.createElement("a")];
    name.textContent = term.dataset.term;
    line.append(name, ` ${term.dataset.meaning}`);
    link.href = term.href;
    link.textContent = say("Glossary");
    way.className = "hint";
    way.append(link);
    return [line, way];
  }

  function offer(tip, mark) {
    mark.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "touch") tip.showSoon(mark);
    });
    mark.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") tip.hideSoon();
    });
    mark.addEventListener("focus", () => { if (mark.matches(":focus-visible")) tip.show(mark); });
    mark.addEventListener("blur", tip.hideSoon);
    // The first tap of a finger shows what is said, the second one goes there.
    mark.addEventListener("click", (event) => {
      if (event.pointerType === "touch" && !mark.hasAttribute("aria-describedby")) {
        event.preventDefault();
        tip.show(mark);
      }
    });
  }

  for (const [selector, id, kind, read] of [
    ["article sup.note a", "note.tip", "note-tip", readNote],
    ["article a.term", "term.tip", "term-tip", readTerm],
  ]) {
    const marks = document.querySelectorAll(selector);
    if (!marks.length) continue;
    const tip = makeTip(id, kind, read);
    for (const mark of marks) offer(tip, mark);
    document.addEventListener("click", (event) => {
      if (!event.target.closest(selector) && !tip.box.contains(event.target)) tip.hide();
    });
  }
})();
