// A page of `bindery serve`. After a save it takes over the blocks of its chapter that have changed;
// if more than these has changed, it is loaded again. Either way it keeps its position. Below each
// block it shows what the check finds there.
(() => {
  const KEY = "bindery place";
  // What scripts of the page work on when it is loaded.
  const PREPARED = "h1, h2, h3, h4, h5, h6, pre, table, img, [data-number]";
  const here = decodeURIComponent(location.pathname.slice(1)).replace(/(^|\/)$/, "$1index.html");
  let { version } = document.currentScript.dataset;
  // Both are read now, before the scripts of the page change anything.
  const blocks = readBlocks(document);
  const frame = readFrame(document);

  function makeElement(name, className, text) {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  }

  // The blocks of a chapter; that a line above has come or gone does not change them.
  function readBlocks(page) {
    return [...page.querySelectorAll("article > *")].map((element) => {
      const copy = element.cloneNode(true);
      copy.removeAttribute("data-line");
      return { element, source: copy.outerHTML };
    });
  }

  // A page without its blocks and without what scripts in it may have changed by now.
  function readFrame(page) {
    const copy = page.documentElement.cloneNode(true);
    for (const one of copy.querySelectorAll("article > *, meta, link[rel=preload], script[data-version]")) one.remove();
    for (const one of copy.querySelectorAll("details")) one.open = true;
    return copy.innerHTML.replace(/\s+/g, " ");
  }

  // The position is that of the first block in sight, for what is above it may have grown.
  const findBlock = () => [...document.querySelectorAll("[data-line]")].find((one) => one.getBoundingClientRect().bottom > 0);
  const findTop = (block) => block?.getBoundingClientRect().top;

  function keepPlace() {
    const block = findBlock();
    const top = findTop(block);
    sessionStorage.setItem(KEY, JSON.stringify({ here, line: block?.dataset.line, top, y: scrollY }));
    history.scrollRestoration = "manual";
  }

  function returnToPlace() {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
    if (kept?.here !== here) return;
    const lines = [...document.querySelectorAll("[data-line]")];
    const block = lines.findLast((one) => Number(one.dataset.line) <= Number(kept.line));
    if (block && kept.y > 0) scrollBy(0, findTop(block) - kept.top);
    else scrollTo(0, kept.y);
  }

  /* Make a change of the text while what is in sight stays where it is. */
  function keepStill(change) {
    const block = findBlock();
    const top = findTop(block);
    const result = change();
    if (scrollY > 0 && block?.isConnected) scrollBy(0, findTop(block) - top);
    return result;
  }

  async function update() {
    const text = await (await fetch(location.href)).text();
    const page = new DOMParser().parseFromString(text, "text/html");
    if (keepStill(() => replaceBlocks(page))) version = page.querySelector("script[data-version]").dataset.version;
    else {
      keepPlace();
      location.reload();
    }
  }

  /* Whether the blocks that have changed could be replaced by those of a page. */
  function replaceBlocks(page) {
    const fresh = readBlocks(page);
    const shorter = Math.min(blocks.length, fresh.length);
    let [start, end] = [0, 0];
    while (start < shorter && blocks[start].source === fresh[start].source) start += 1;
    while (end < shorter - start && blocks.at(-1 - end).source === fresh.at(-1 - end).source) {
      end += 1;
      const [{ element }, { element: { dataset } }] = [blocks.at(-end), fresh.at(-end)];
      if (dataset.line) element.dataset.line = dataset.line;
    }
    const [old, added] = [blocks, fresh].map((all) => all.slice(start, all.length - end));
    const isPlain = ({ element }) => !element.matches(PREPARED) && !element.querySelector(PREPARED);
    const before = [...document.querySelectorAll("article > *")].find((one) => one.contains(blocks[start - 1]?.element));
    if (!before || ![...old, ...added].every(isPlain) || readFrame(page) !== frame) return false;
    before.after(...added.map(({ element }) => element));
    for (const { element } of old) element.remove();
    blocks.splice(start, old.length, ...added);
    return true;
  }

  function showFindings({ trouble, findings = [], others = 0 }) {
    for (const old of document.querySelectorAll(".preview:not(.pdf)")) old.remove();
    const lines = [...document.querySelectorAll("[data-line]")];
    const article = document.querySelector("article");
    for (const { line, kind, text, help } of findings) {
      const note = makeElement("aside", `preview ${kind}`, `line ${line}: ${text}`);
      if (help) note.append(makeElement("small", "", help));
      const block = lines.findLast((one) => Number(one.dataset.line) <= line);
      if (block) block.after(note);
      else article?.prepend(note);
    }
    if (findings.length + others) {
      const words = `${findings.length} in this chapter, ${others} elsewhere`;
      const mark = makeElement("button", "preview count", `Findings: ${words}`);
      mark.addEventListener("click", () => document.querySelector("aside.preview")?.scrollIntoView({ block: "center" }));
      document.body.append(mark);
    }
    if (trouble.length) document.body.append(makeElement("aside", "preview error trouble", trouble.join("\n")));
  }

  const style = document.createElement("style");
  style.textContent = `
    html { overflow-anchor: none }
    aside.preview { border-left: 4px solid #b35900; margin: 0.5rem 0; padding: 0.3rem 0.8rem; font: 0.9rem/1.4 sans-serif; background: color-mix(in srgb, currentColor 6%, transparent) }
    aside.preview.error { border-color: #c62828 }
    aside.preview small { display: block; opacity: 0.8 }
    .preview.pdf { position: fixed; right: 1rem; bottom: 1rem; z-index: 9; font: 0.85rem sans-serif }
    .preview.count { position: fixed; left: 1rem; bottom: 1rem; z-index: 9; padding: 0.4rem 0.8rem; font: 0.85rem sans-serif }
    aside.preview.trouble { position: fixed; inset: auto 0 0; z-index: 10; margin: 0; padding: 1rem; white-space: pre-line; color: #000; background: #ffebee }`;
  document.head.append(style);

  if (document.querySelector("article [data-line]")) {
    const link = makeElement("a", "preview pdf", "PDF of this chapter");
    link.href = `/-/chapter.pdf?page=${encodeURIComponent(here)}`;
    link.target = "_blank";
    document.body.append(link);
  }
  returnToPlace(); // before anything is seen, and when all has its size
  addEventListener("load", () => {
    returnToPlace();
    sessionStorage.removeItem(KEY);
    setTimeout(() => { history.scrollRestoration = "auto"; }); // later than the browser looks
  });

  // Events come one after another, and only to a page that is seen: a browser has few connections.
  let events = null;
  let work = Promise.resolve();

  async function take(state) {
    if (state.version !== version) await update();
    if (!state.findings && state.version === version) fetch("/-/shown"); // then the book is checked
    if (state.findings || state.trouble.length) keepStill(() => showFindings(state));
  }

  function listen() {
    events?.close();
    if (document.hidden) return;
    events = new EventSource(`/-/events?page=${encodeURIComponent(here)}`);
    events.onmessage = ({ data }) => { work = work.catch(() => {}).then(() => take(JSON.parse(data))); };
  }

  document.addEventListener("visibilitychange", listen);
  addEventListener("pageshow", ({ persisted }) => { if (persisted) listen(); });
  addEventListener("pagehide", () => events?.close());
  listen();
})();
