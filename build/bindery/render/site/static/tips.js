/* Small boxes beside the words that they explain: their places, when they come and go. */

"use strict";

(() => {
  const SHOW_AFTER = 150;
  const HIDE_AFTER = 250;
  const MARGIN = 8;

  /* A box that describes one element at a time. `fill` gives what it shows of an element. */
  window.makeTip = (id, kind, fill) => {
    const box = document.createElement("div");
    box.id = id;
    box.className = `tipbox ${kind}`;
    box.setAttribute("role", "tooltip");
    box.hidden = true;
    document.querySelector("article").append(box);
    let owner = null;
    let timer = 0;

    function place() {
      if (!owner) return;
      const { left, top, bottom } = owner.getBoundingClientRect();
      const { width, height } = box.getBoundingClientRect();
      const room = document.documentElement.clientWidth;
      const isBelow = bottom + height + MARGIN <= innerHeight || top < height + MARGIN;
      box.style.left = `${Math.max(MARGIN, Math.min(left, room - width - MARGIN))}px`;
      box.style.top = `${isBelow ? bottom + 4 : top - height - 4}px`;
    }

    function show(element, ...more) {
      clearTimeout(timer);
      if (owner === element) return;
      const content = fill(element, ...more);
      hide();
      if (!content) return;
      owner = element;
      box.replaceChildren(...content);
      box.hidden = false;
      owner.setAttribute("aria-describedby", id);
      place();
    }

    function hide() {
      clearTimeout(timer);
      owner?.removeAttribute("aria-describedby");
      owner = null;
      box.hidden = true;
    }

    function wait(act, time) {
      clearTimeout(timer);
      timer = setTimeout(act, time);
    }

    const tip = {
      box,
      show,
      hide,
      keep: () => clearTimeout(timer),
      showSoon: (element) => (element === owner ? tip.keep() : wait(() => show(element), SHOW_AFTER)),
      // What has the focus keeps its box.
      hideSoon: () => wait(() => { if (owner !== document.activeElement) hide(); }, HIDE_AFTER),
    };
    box.addEventListener("pointerenter", tip.keep);
    box.addEventListener("pointerleave", tip.hideSoon);
    addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
    addEventListener("scroll", place, { capture: true, passive: true });
    addEventListener("resize", place);
    addEventListener("beforeprint", hide);
    return tip;
  };
})();
