// A page of `bindery serve`: it is loaded again after each change, at the place where it was, and
// shows what the check finds in its chapter below the blocks that it is found in.
(() => {
  const KEY = "bindery place";
  const here = decodeURIComponent(location.pathname.slice(1)).replace(/(^|\/)$/, "$1index.html");
  let shown = null;

  function makeElement(name, className, text) {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  }

  // The place is that of the first block in sight, for what is above it may have grown.
  function keepPlace() {
    const block = [...document.querySelectorAll("[data-line]")].find((one) => one.getBoundingClientRect().bottom > 0);
    const top = block?.getBoundingClientRect().top;
    sessionStorage.setItem(KEY, JSON.stringify({ here, line: block?.dataset.line, top, y: scrollY }));
  }

  function returnToPlace() {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    sessionStorage.removeItem(KEY);
    if (kept?.here !== here) return;
    const lines = [...document.querySelectorAll("[data-line]")];
    const block = lines.findLast((one) => Number(one.dataset.line) <= Number(kept.line));
    if (block && kept.y > 0) scrollBy(0, block.getBoundingClientRect().top - kept.top);
    else scrollTo(0, kept.y);
  }

  function showFindings({ findings, others }) {
    for (const old of document.querySelectorAll(".preview:not(.pdf)")) old.remove();
    const lines = [...document.querySelectorAll("[data-line]")];
    const article = document.querySelector("article");
    for (const { line, kind, text, help } of findings) {
      const note = makeElement("aside", `preview ${kind}`, `${line}: ${text}`);
      if (help) note.append(makeElement("small", "", help));
      const block = lines.findLast((one) => Number(one.dataset.line) <= line);
      if (block) block.after(note);
      else article?.prepend(note);
    }
    const count = findings.length + others;
    if (count) {
      const words = `${findings.length} in this chapter, ${others} elsewhere`;
      const mark = makeElement("button", "preview count", `Findings: ${words}`);
      mark.addEventListener("click", () => document.querySelector("aside.preview")?.scrollIntoView({ block: "center" }));
      document.body.append(mark);
    }
    document.documentElement.dataset.checked = shown;
  }

  const style = document.createElement("style");
  style.textContent = `
    aside.preview { border-left: 4px solid #b35900; margin: 0.5rem 0; padding: 0.3rem 0.8rem; font: 0.9rem/1.4 sans-serif; background: color-mix(in srgb, currentColor 6%, transparent) }
    aside.preview.error { border-color: #c62828 }
    aside.preview small { display: block; opacity: 0.8 }
    .preview.pdf { position: fixed; right: 1rem; bottom: 1rem; z-index: 9; font: 0.85rem sans-serif }
    .preview.count { position: fixed; left: 1rem; bottom: 1rem; z-index: 9; padding: 0.4rem 0.8rem; font: 0.85rem sans-serif }`;
  document.head.append(style);

  if (document.querySelector("article [data-line]")) {
    const link = makeElement("a", "preview pdf", "PDF of this chapter");
    link.href = `/-/chapter.pdf?page=${encodeURIComponent(here)}`;
    document.body.append(link);
  }
  addEventListener("load", returnToPlace);
  const events = new EventSource(`/-/events?page=${encodeURIComponent(here)}`);
  events.onmessage = ({ data }) => {
    const state = JSON.parse(data);
    if (shown !== null && state.version !== shown) {
      keepPlace();
      location.reload();
      return;
    }
    shown = state.version;
    document.documentElement.dataset.version = shown;
    if (state.findings) showFindings(state);
  };
  addEventListener("pagehide", () => events.close());
})();
