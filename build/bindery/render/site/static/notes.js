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

  function offer(tip, selector) {
    const find = ({ target }) => (target instanceof Element ? target.closest(selector) : null);
    const isShown = (event) => tip.box.contains(event.target);
    document.addEventListener("pointerover", (event) => {
      if (event.pointerType === "touch") return;
      const mark = find(event);
      if (mark) tip.showSoon(mark);
      else if (!isShown(event)) tip.hideSoon();
    });
    document.addEventListener("focusin", (event) => {
      const mark = find(event);
      if (mark?.matches(":focus-visible")) tip.show(mark);
    });
    document.addEventListener("focusout", tip.hideSoon);
    // The first tap of a finger shows what is said, the second one goes there.
    document.addEventListener("click", (event) => {
      const mark = find(event);
      if (!mark) {
        if (!isShown(event)) tip.hide();
      } else if (event.pointerType === "touch" && !mark.hasAttribute("aria-describedby")) {
        event.preventDefault();
        tip.show(mark);
      }
    });
  }

  for (const [selector, id, kind, read] of [
    ["article sup.note a", "note.tip", "note-tip", readNote],
    ["article a.term", "term.tip", "term-tip", readTerm],
  ]) {
    if (document.querySelector(selector)) offer(makeTip(id, kind, read), selector);
  }
})();
